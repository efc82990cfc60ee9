"""Handlers that never come back: their items go to others, and so does what their workers had not begun."""

import pytest

from bulk_pipelines.engine.states import ItemState
from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys
from bulk_pipelines_tests.scenes.waiting import until


@pytest.mark.long
@pytest.mark.parametrize("kind", ["hanging", "hanging_side_by_side"])
def test_an_item_that_hangs_comes_to_another_worker(kind: str, scene: Scene) -> None:
    work = items(40, seconds=0.01)
    work[2] = ("item-0002", {"hangs": 1})
    job = scene.job(kind, work)
    with Crew(scene.url, job, scene.folder) as crew:
        (hanging,) = crew.hire()
        until(lambda: any(mark.item_key == "item-0002" for mark in scene.marks("begun")), "the item hangs")
        crew.hire()
        until(lambda: scene.find(job.job_key).finished, "the job is finished", 60)
        assert hanging.alive
        hanging.kill()
        crew.members.remove(hanging)
        scene.finish(crew, job)
    rows = scene.check(job, keys(work))
    assert rows["item-0002"].lease_term > 1
    # Its neighbours had not begun: nobody died on them.
    assert [key for key, row in rows.items() if row.death_count and key != "item-0002"] == []


@pytest.mark.long
def test_a_preparation_that_hangs_is_not_waited_for(scene: Scene) -> None:
    """A preparation is begun for all items of a claim; the one on which it hangs is found by taking the items alone."""
    work = items(20, seconds=0.01)
    work[2] = ("item-0002", {"prepare_hangs": 1})
    job = scene.job("hanging_preparation", work)
    with Crew(scene.url, job, scene.folder) as crew:
        (hanging,) = crew.hire()
        until(lambda: scene.find(job.job_key).running_items > 0, "the first items are claimed")
        crew.hire()
        until(lambda: scene.find(job.job_key).finished, "the job is finished", 60)
        assert hanging.alive
        hanging.kill()
        crew.members.remove(hanging)
        scene.finish(crew, job)
    scene.check(job, keys(work))


@pytest.mark.long
def test_an_item_that_always_hangs_is_buried(scene: Scene) -> None:
    """The job ends if enough workers are left; whoever runs the workers that hang must end them."""
    work = items(30, seconds=0.01)
    work[2] = ("item-0002", {"hangs": 99})
    job = scene.job("hanging", work)
    with Crew(scene.url, job, scene.folder) as crew:
        crew.hire(4)
        until(lambda: scene.find(job.job_key).finished, "the job is finished", 60)
        until(lambda: sum(member.alive for member in crew.members) == 3, "the one that does not hang has left")
        hanging = [member for member in crew.members if member.alive]
        for member in hanging:
            crew.members.remove(member)
            member.kill()
        scene.finish(crew, job)
    rows = scene.check(job, keys(work), buried=["item-0002"])
    assert rows["item-0002"].status == ItemState.DLQ
    assert str(rows["item-0002"].error_message).startswith("poison pill")
