"""What the jobs of the launchpad that submit something say of it, and how they wait for it if that is wanted."""

import time

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, listing
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.orchestration.failures import has_failed
from bulk_pipelines.orchestration.runs import refused

LOOK_SECONDS = 0.5
LAUNCH_SECONDS = 10.0
"""How long the run that does the work is waited for, so that a link to it can be shown."""


class SubmissionConfig(dg.Config):
    """What all jobs that submit something can be told."""

    idempotency_key: str | None = Field(default=None, description="The same key again answers with the first job.")
    priority: int = Field(default=0, description="From -100 to 100: jobs of a higher one are launched first.")
    wait: bool = Field(default=False, description="Wait until the job is over, and fail if it failed or was cancelled.")

    @property
    def sender(self) -> Sender:
        return Sender("ui", "ui", self.idempotency_key, priority=self.priority)


class FileConfig(SubmissionConfig):
    """What jobs that read files can be told of them."""

    delimiter: str | None = Field(default=None, description=HELP["delimiter"])
    quote: str | None = Field(default=None, description=HELP["quote"])
    escape: str | None = Field(default=None, description=HELP["escape"])
    encoding: str | None = Field(default=None, description=HELP["encoding"])
    skip_lines: int = Field(default=0, description=HELP["skip_lines"])
    no_header: bool = Field(default=False, description=HELP["no_header"])
    fields: list[str] = Field(default=[], description=HELP["fields"])
    nulls: list[str] = Field(default=[], description=HELP["nulls"])
    decimal: str | None = Field(default=None, description=HELP["decimal"])
    dates: dict[str, str] = Field(default={}, description=HELP["dates"])
    sheet: str | None = Field(default=None, description=HELP["sheet"])
    member: str | None = Field(default=None, description=HELP["member"])
    map: dict[str, str] = Field(default={}, description=HELP["map"])
    ignore: list[str] = Field(default=[], description=HELP["ignore"])
    ignore_extra: bool = Field(default=False, description=HELP["ignore_extra"])
    constants: dict[str, str] = Field(default={}, description=HELP["constants"])
    expressions: dict[str, str] = Field(default={}, description=HELP["expressions"])

    @property
    def reading(self) -> Reading:
        return Reading.of({name: getattr(self, name) for name in HELP})


def follow(
    context: dg.OpExecutionContext,
    pool: Engine,
    submitted: Submitted,
    what: str,
    asset: str,
    config: SubmissionConfig,
    **metadata: str | int,
) -> None:
    """Say which job came of a submission, with links to its partition and to the run that works it, in the run's log
    and as metadata of its step. Share the job's fate if that is wanted."""
    said = "submitted" if submitted.created else "submitted before, under this idempotency key"
    job = submitted.job
    context.log.info(f"{what}: {said} as job {job.job_key}")
    shown: dict[str, dg.MetadataValue | str | int] = {
        "job": job.job_key,
        **metadata,
        "partition": dg.MetadataValue.url(f"/assets/{asset}?partition={job.job_key}"),
        "state": said,
    }
    run = run_of(context, pool, job, wanted=config.wait)
    if run is not None:
        shown["run"] = dg.MetadataValue.dagster_run(run)
    if config.wait:
        job = ended(pool, job)
        shown["state"] = str(job.status)
    context.add_output_metadata(shown)
    if has_failed(job) or job.status is JobState.CANCELLED:
        raise refused(context, f"job {job.job_key} is {job.status}: {job.last_error or 'see its run'}", shown)


def run_of(context: dg.OpExecutionContext, pool: Engine, job: Job, *, wanted: bool) -> str | None:
    """Return the run that works the job, once there is one. Without a daemon that launches runs, nobody waits for one,
    unless waiting is what is wanted."""
    deadline = time.monotonic() + (LAUNCH_SECONDS if launches(context.instance) else 0.0)
    while True:
        with transaction(pool) as connection:
            found = listing.runs(connection, job)
            job = jobs.find(connection, job.job_key)
        if found:
            return found[-1].dagster_run_id
        if job.finished or (not wanted and time.monotonic() >= deadline):
            return None
        time.sleep(LOOK_SECONDS)


def launches(instance: dg.DagsterInstance) -> bool:
    """Whether a daemon evaluates sensors, of which the relay is one."""
    sensors = instance.get_daemon_statuses().get("SENSOR")
    return sensors is not None and bool(sensors.healthy)


def ended(pool: Engine, job: Job) -> Job:
    while not job.finished:
        time.sleep(LOOK_SECONDS)
        with transaction(pool) as connection:
            job = jobs.find(connection, job.job_key)
    return job
