"""The end of a job of notices. Notices that nobody took are its dead letters."""

from dataclasses import replace

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs import end
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Ending
from bulk_pipelines.notices import report


def finish(connection: Connection, job: Job) -> Ending:
    return replace(end.verdict(job), result=report.counts(connection, job.job_id))
