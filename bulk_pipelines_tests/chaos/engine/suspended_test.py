"""Workers that are suspended, as by a sleeping laptop or a frozen machine, and go on when others have their items."""

import random
from typing import Any

import psycopg
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.scene import Scene, count, items, keys
from bulk_pipelines_tests.scenes.waiting import until


def begun(scene: Scene, worker: str) -> set[str]:
    """The items that this worker has begun and not done."""
    done = {(mark.item_key, mark.term) for mark in scene.marks("done")}
    return {
        mark.item_key
        for mark in scene.marks("begun")
        if mark.worker == worker and (mark.item_key, mark.term) not in done
    }


def sleeping_in_a_transaction(scene: Scene, worker: str, after: str = "") -> bool:
    """Whether a transaction of the worker waits for its next statement; `after` this one, by its beginning."""
    with transaction(scene.pool) as connection:
        query = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND state = 'idle in transaction' AND starts_with(query, %s)"
        )
        return count(connection, query, [worker, after]) > 0


def waiting_for_a_lock(scene: Scene, worker: str) -> int:
    with transaction(scene.pool) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
        return count(connection, query, [worker])


def the_job_s_row_held(scene: Scene, job: Job) -> psycopg.Connection[Any]:
    """Hold the job's row: whoever moves the job's counters waits until this connection is closed."""
    holder = pool.single(scene.url)
    holder.execute("BEGIN")
    holder.execute("SELECT FROM job WHERE job_id = %s FOR UPDATE", [job.job_id])
    return holder


@pytest.mark.long
@pytest.mark.parametrize("kind", ["one_by_one", "side_by_side", "marks"])
def test_what_a_worker_settles_past_its_lease_is_dropped(kind: str, scene: Scene) -> None:
    work = items(12, seconds=0.5)
    job = scene.job(kind, work)
    with Crew(scene.url, job, scene.folder) as crew:
        (first,) = crew.hire()
        until(lambda: bool(begun(scene, first.name)), "an item is being worked")
        first.suspend()
        caught = begun(scene, first.name)
        assert caught
        (second,) = crew.hire()
        until(lambda: scene.find(job.job_key).finished, "the other one has finished the job", 60)
        first.resume()
        scene.finish(crew, job)
        assert crew.replaced == 0
    rows = scene.check(job, keys(work))
    for key in caught:
        assert rows[key].lease_owner == second.name
        assert {mark.worker for mark in scene.marks("begun") if mark.item_key == key} == {first.name, second.name}
    if kind == "marks":
        # Nothing told it: it did all of the work, later than the other one, and only the settlement was refused.
        last = {mark.item_key: mark.worker for mark in scene.marks("done")}
        assert {last[key] for key in caught} == {first.name}
        assert first.said("is lost: its outcome is dropped")


@pytest.mark.long
def test_a_worker_suspended_again_and_again_beside_others(scene: Scene, chance: random.Random) -> None:
    work = items(600, seconds=0.005)
    job = scene.job("side_by_side", work)
    with Crew(scene.url, job, scene.folder) as crew:
        first, *_ = crew.hire(2)
        for _ in range(4):
            scene.get_on(crew, job, chance.randint(1, 100))
            first.suspend()
            scene.get_on(crew, job, chance.randint(50, 150))
            first.resume()
        scene.finish(crew, job)
        assert crew.replaced == 0
    scene.check(job, keys(work))


@pytest.mark.long
@pytest.mark.parametrize("doing", ["claims", "settles", "ends the job"])
def test_one_that_falls_asleep_while_it_writes_does_not_stop_the_others(doing: str, scene: Scene) -> None:
    """The sleeper's statement ends in the database, and then holds the job's row until a commit that does not come."""
    work = items(0 if doing == "ends the job" else 100, seconds=0.02)
    job = scene.job("one_by_one", work)
    with Crew(scene.url, job, scene.folder) as crew:
        first, second = crew.hire(2, wait=True)
        if doing == "settles":
            first.go()
            until(lambda: scene.written() > 0, "the work has begun")
        holder = the_job_s_row_held(scene, job)
        first.go()
        until(lambda: waiting_for_a_lock(scene, first.name) > 0, "the first one waits for the job's row")
        first.suspend()
        holder.close()
        until(lambda: sleeping_in_a_transaction(scene, first.name), "it has it, and does not commit")
        second.go()
        assert second.ended(60) == 0
        assert scene.find(job.job_key).finished
        first.resume()
        scene.finish(crew, job)
        assert crew.replaced == 0
    scene.check(job, keys(work))


@pytest.mark.long
def test_one_that_falls_asleep_in_a_transaction_of_data_does_not_keep_its_item(scene: Scene) -> None:
    work = items(2, parts=2, seconds=2.0)
    job = scene.job("long", work)
    with Crew(scene.url, job, scene.folder) as crew:
        (first,) = crew.hire()
        until(lambda: sleeping_in_a_transaction(scene, first.name, "INSERT"), "it is in the middle of a transaction")
        first.suspend()
        assert sleeping_in_a_transaction(scene, first.name, "INSERT")
        (second,) = crew.hire()
        assert second.ended(60) == 0
        assert scene.find(job.job_key).finished
        first.resume()
        scene.finish(crew, job)
        assert crew.replaced == 0
    scene.check(job, keys(work))
