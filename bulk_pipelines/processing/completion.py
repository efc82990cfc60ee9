"""The end of a job of processing depends on what became of its rows. Rows for which nothing was found are no
failures."""

from dataclasses import replace

from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs import end
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Ending
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.processing.report import report


def finish(connection: Connection, job: Job) -> Ending:
    """End the job, and keep the counts of its outcomes in its result, because retention removes the items. A job with
    buried rows fails, so that people see it; a redrive tries these rows again."""
    result = report.counts(connection, job.job_id).as_json()
    if job.dlq_items:
        said = f"{job.dlq_items:,} of {counted(job.total_items, 'row')} failed: bulk dlq list --job {job.job_key}"
        return Ending(JobEvent.FAIL, result, said)
    return replace(end.verdict(job), result=result)
