"""Signs of life of a job."""

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch
from bulk_pipelines_tests.scenes.engine_jobs import found, running
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
