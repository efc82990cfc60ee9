"""A database that goes away in the middle of the work and comes back: the workers outlast it."""

import random
import time

import pytest

from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.kinds import LEASE_SECONDS
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys
from bulk_pipelines_tests.scenes.waiting import until


@pytest.mark.long
@pytest.mark.parametrize("kind", ["one_by_one", "side_by_side"])
def test_every_connection_ended_again_and_again(kind: str, scene: Scene, chance: random.Random) -> None:
    work = items(500, seconds=0.01)
    with scene.worked(kind, work, 2, replaced=0) as (crew, job):
        ended = 0
        for _ in range(20):
            scene.get_on(crew, job, chance.randint(1, 60))
            ended += scene.end_connections()
        assert ended > 40


@pytest.mark.long
def test_connections_ended_under_long_items_lose_and_repeat_no_row(scene: Scene, chance: random.Random) -> None:
    work = items(4, parts=100, seconds=0.005)
    with scene.worked("long", work, 2, replaced=0) as (crew, job):
        for _ in range(15):
            scene.get_on(crew, job, chance.randint(1, 20))
            scene.end_connections()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["one_by_one", "side_by_side"])
def test_an_immediate_stop_and_restart_of_postgresql_twice(kind: str, scene: Scene, chance: random.Random) -> None:
    work = items(400, seconds=0.01)
    with scene.worked(kind, work, 2, replaced=0) as (crew, job):
        for _ in range(2):
            scene.get_on(crew, job, chance.randint(50, 300))
            scene.server.stop_immediately()
            scene.server.start()


@pytest.mark.long
def test_an_orderly_restart(scene: Scene, chance: random.Random) -> None:
    work = items(200, seconds=0.01)
    with scene.worked("one_by_one", work, 2, replaced=0) as (crew, job):
        scene.get_on(crew, job, chance.randint(50, 200))
        scene.server.restart()


@pytest.mark.long
def test_an_outage_longer_than_the_leases(scene: Scene, chance: random.Random) -> None:
    """When the database is back, all leases have run out, and each worker may rescue the other's items."""
    work = items(200, seconds=0.01)
    with scene.worked("one_by_one", work, 2, replaced=0) as (crew, job):
        scene.get_on(crew, job, chance.randint(50, 200))
        scene.server.stop_immediately()
        back_at = time.monotonic() + 1.5 * LEASE_SECONDS
        until(lambda: time.monotonic() > back_at, "the leases have run out")
        scene.server.start()


def test_the_database_is_unreachable_at_first(scene: Scene) -> None:
    work = items(50)
    job = scene.job("one_by_one", work)
    with Crew(scene.url, job, scene.folder) as crew:
        scene.server.stop()
        workers = crew.hire(2)
        for each in workers:
            until(lambda each=each: each.said("waits for the database"), f"{each.name} has noticed")  # type: ignore[misc]
        scene.server.start()
        scene.finish(crew, job)
        assert crew.replaced == 0
    scene.check(job, keys(work))
