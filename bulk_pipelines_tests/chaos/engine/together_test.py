"""Several workers on one job."""

import random

import pytest

from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.kinds import LEASE_SECONDS, LONGER_LEASE_SECONDS
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys


@pytest.mark.parametrize(("kind", "workers"), [("patient", 2), ("patient_side_by_side", 2), ("patient", 5)])
def test_workers_share_a_job_and_no_item_is_worked_twice(kind: str, workers: int, scene: Scene) -> None:
    work = items(120 * workers, seconds=0.01)
    job = scene.job(kind, work)
    with Crew(scene.url, job, scene.folder) as crew:
        hired = crew.hire(workers, wait=True)
        for worker in hired:
            worker.go()
        scene.finish(crew, job)
        assert crew.replaced == 0
    rows = scene.check(job, keys(work))
    assert {row.lease_term for row in rows.values()} == {1}
    assert len(scene.marks("begun")) == len(work)
    assert {mark.worker for mark in scene.marks("done")} == {worker.name for worker in hired}


@pytest.mark.long
def test_items_longer_than_their_leases_are_not_taken_for_lost(scene: Scene) -> None:
    """Leases are renewed while their items are worked; else the idle worker would rescue these items."""
    work = items(2, seconds=1.5 * LONGER_LEASE_SECONDS)
    job = scene.job("longer_leases", work)
    with Crew(scene.url, job, scene.folder) as crew:
        crew.hire(2)
        scene.finish(crew, job)
    rows = scene.check(job, keys(work))
    assert {(row.lease_term, row.death_count) for row in rows.values()} == {(1, 0)}


@pytest.mark.long
def test_a_transaction_longer_than_its_lease_keeps_the_item(scene: Scene) -> None:
    """While the transaction writes, nobody can take the item; when it commits, the lease begins anew."""
    work = items(1, parts=3, seconds=1.5 * LEASE_SECONDS)
    job = scene.job("long", work)
    with Crew(scene.url, job, scene.folder) as crew:
        crew.hire(2)
        scene.finish(crew, job)
    (row,) = scene.check(job, keys(work)).values()
    assert (row.lease_term, row.death_count) == (1, 0)


@pytest.mark.long
def test_everything_at_once(scene: Scene, chance: random.Random) -> None:
    """Kills, suspensions, ended connections and a crash of the server, in any order."""
    work = items(600, seconds=0.005)
    with scene.worked("side_by_side", work, 3) as (crew, job):
        for _ in range(10):
            scene.get_on(crew, job, chance.randint(1, 60))
            victim = chance.choice([member for member in crew.members if member.alive] or crew.members)
            event = chance.choice(["kill", "suspend", "end connections", "crash"])
            print(event, victim.name)
            match event:
                case "kill":
                    victim.kill()
                case "suspend":
                    victim.suspend()
                    scene.get_on(crew, job, chance.randint(1, 60))
                    victim.resume()
                case "end connections":
                    scene.end_connections()
                case "crash":
                    scene.server.stop_immediately()
                    scene.server.start()
