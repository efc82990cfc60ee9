"""Workers that are killed with -9: their items come to others, every one once."""

import random

import pytest

from bulk_pipelines.errors import ErrorClass
from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys
from bulk_pipelines_tests.scenes.today import one_of


@pytest.mark.long
@pytest.mark.parametrize("kind", one_of(["one_by_one", "side_by_side"]))
def test_a_worker_killed_again_and_again_in_the_middle_of_a_slice(
    kind: str, scene: Scene, chance: random.Random
) -> None:
    work = items(300, seconds=0.01)
    with scene.worked(kind, work, 1, replaced=8) as (crew, job):
        for _ in range(8):
            scene.get_on(crew, job, chance.randint(3, 60))
            crew.members[0].kill()


@pytest.mark.long
def test_two_workers_killed_in_turns(scene: Scene, chance: random.Random) -> None:
    work = items(400, seconds=0.01)
    with scene.worked("one_by_one", work, 2) as (crew, job):
        for _ in range(8):
            scene.get_on(crew, job, chance.randint(3, 80))
            chance.choice([member for member in crew.members if member.alive]).kill()


@pytest.mark.long
def test_long_items_killed_ten_times_at_random_have_every_row_once(scene: Scene, chance: random.Random) -> None:
    """Each row is written with its checkpoint in one transaction; so a new worker goes on behind the last one."""
    work = items(2, parts=150, seconds=0.005)
    with scene.worked("long", work, 1, replaced=10) as (crew, job):
        for _ in range(10):
            scene.get_on(crew, job, chance.randint(1, 25))
            crew.members[0].kill()


@pytest.mark.parametrize("kind", ["one_by_one", "side_by_side"])
def test_a_poison_pill_is_buried_at_its_third_death_and_takes_nobody_with_it(
    kind: str, scene: Scene, chance: random.Random
) -> None:
    work = items(40, seconds=0.002)
    poison = chance.randrange(len(work))
    work[poison] = (f"poison-{poison}", {"kills": 99})
    job = scene.job(kind, work)
    # Settlements wait for company: those of its neighbours must be written before the poison is taken all the same.
    with Crew(scene.url, job, scene.folder, "--flush", "5") as crew:
        crew.hire()
        ended = scene.finish(crew, job)
        assert crew.replaced == 3
    rows = scene.check(job, keys(work), buried=[f"poison-{poison}"])
    buried = rows[f"poison-{poison}"]
    assert buried.death_count == 3
    assert buried.error_class == ErrorClass.DIED
    assert buried.error_message is not None
    assert buried.error_message.startswith("poison pill: 3 workers died on it, the last one worker-3")
    assert ended.last_error is not None
    assert ended.last_error.startswith(f"poison-{poison}: poison pill")


def test_an_item_that_killed_two_workers_and_then_gets_on_is_not_buried(scene: Scene) -> None:
    work = items(20, seconds=0.002)
    work[3] = ("item-0003", {"kills": 2})
    job = scene.job("one_by_one", work)
    with Crew(scene.url, job, scene.folder) as crew:
        crew.hire()
        scene.finish(crew, job)
        assert crew.replaced == 2
    scene.check(job, keys(work))
