"""Signs of life of a job."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import dispatch
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import RetryLater
from bulk_pipelines_tests.scenes.engine_jobs import claimed, expire, found, kind, only, running, settled
from bulk_pipelines_tests.scenes.waiting import until


def test_a_worker_beats_more_often_for_a_shorter_silence(pool: Engine) -> None:
    """A job that is looked into after a second without a beat must not wait fifteen seconds for its first one."""
    job = running(pool, 1)
    with transaction(pool) as connection:
        connection.execute("UPDATE job SET heartbeat_at = now() - interval '1 hour' WHERE job_id = %s", [job.job_id])
    before = found(pool, job).heartbeat_at
    assert before is not None
    with dispatch.beating(pool, job.job_id, silent_seconds=1.0):
        until(lambda: (found(pool, job).heartbeat_at or before) > before, "the job has beaten", 10)


def put_off(pool: Engine, *, died: bool) -> Job:
    """A job that nobody has beaten for in an hour, whose items all wait for a retry: they were put off by a handler, or
    their worker died holding them."""
    job = running(pool, 2)
    given = claimed(pool, job)
    if died:
        expire(pool, given)
        rescue.run_once(pool, only(kind()), lambda: 0.5)
    else:
        settled(pool, job, given, RetryLater("later"), delay=3_600.0)
    with transaction(pool) as connection:
        dispatch.begun(connection, job.job_id)
        connection.execute(
            "UPDATE job SET heartbeat_at = now() - interval '1 hour', created_at = now() - interval '1 hour'"
            " WHERE job_id = %s",
            [job.job_id],
        )
    return job


def due_in(pool: Engine, job: Job, seconds: float, *, all_but_one: bool = False) -> None:
    with transaction(pool) as connection:
        connection.execute(
            "UPDATE job_item SET due_at = now() + make_interval(secs => %s) WHERE job_id = %s"
            " AND (NOT %s OR item_id > (SELECT min(item_id) FROM job_item WHERE job_id = %s))",
            [seconds, job.job_id, all_but_one, job.job_id],
        )


def silent(pool: Engine, job: Job) -> tuple[bool, bool]:
    """Whether the job is looked into, and whether somebody else may take its launch."""
    with transaction(pool) as connection, connection.transaction(force_rollback=True):
        looked_into = job.job_id in [each.job_id for each in dispatch.silent(connection, 120.0)]
        return looked_into, dispatch.taken(connection, job.job_id)


@pytest.mark.parametrize("died", [False, True])
def test_a_job_whose_items_all_wait_is_not_silent_before_one_is_due(pool: Engine, died: bool) -> None:
    """The run of the job waits as well, so nobody can beat. Five such waits used to fail the job."""
    job = put_off(pool, died=died)
    due_in(pool, job, 3_600)
    assert silent(pool, job) == (False, False)
    due_in(pool, job, -60)
    assert silent(pool, job) == (False, False), "its run may be just about to begin again"
    due_in(pool, job, 3_600, all_but_one=True)
    assert silent(pool, job) == (False, False)
    due_in(pool, job, -3_600)
    due_in(pool, job, 3_600, all_but_one=True)
    assert silent(pool, job) == (True, True), "one has been due for an hour"


def test_a_job_that_has_other_items_than_waiting_ones_is_silent(pool: Engine) -> None:
    job = put_off(pool, died=False)
    with transaction(pool) as connection:
        connection.execute(
            "UPDATE job_item SET status = 'PENDING', due_at = NULL"
            " WHERE item_id = (SELECT min(item_id) FROM job_item WHERE job_id = %s)",
            [job.job_id],
        )
        connection.execute("UPDATE job SET pending_items = 1, retry_wait_items = 1 WHERE job_id = %s", [job.job_id])
    assert silent(pool, job) == (True, True)
