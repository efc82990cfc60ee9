"""Notices in Dagster: a sensor empties the outbox, and an asset has one partition for each job that delivers."""

import time

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.errors import Conflict
from bulk_pipelines.notices import outbox, report
from bulk_pipelines.notices.kind import kind_of
from bulk_pipelines.notices.request import KIND
from bulk_pipelines.orchestration.pipeline import Launchable, Metadata, Pipeline, launchable, partitions
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.steps import graph

ASSET = "notices"
SECONDS_BETWEEN = 5
SMALL = 5_000


def plan(_: Engine, job: Job) -> Job:
    """Refuse a job without items: notices are submitted with theirs, so this job was not submitted as one."""
    raise Conflict(f"job {job.job_key} has no notices")


def metadata(pool: Engine, job: Job) -> Metadata:
    with transaction(pool) as connection:
        return {**report.counts(connection, job.job_id), "state": job.status.value}


def pipeline() -> Pipeline:
    kind = kind_of(limits_of(settings.current().engine))
    return Pipeline(kind, plan, metadata, small=lambda job: job.total_items <= SMALL, items_per_lane=SMALL)


def asset(lanes: int) -> dg.AssetsDefinition:
    return dg.graph_asset(
        name=ASSET,
        description="What subscribers were told by signed requests. One partition is one job.",
        group_name="notices",
        tags={"layer": "delivery"},
        owners=["team:data-platform"],
        partitions_def=partitions(KIND),
    )(graph(pipeline(), lanes))


def launchables() -> list[Launchable]:
    return [launchable(pipeline(), ASSET, "Delivers the notices of one pass over the outbox.")]


@dg.sensor(
    name="outbox",
    minimum_interval_seconds=SECONDS_BETWEEN,
    default_status=dg.DefaultSensorStatus.RUNNING,
    jobs=[],
    description="Turns what has happened into notices for whoever has subscribed, and into numbers for the metrics.",
)
def empty(context: dg.SensorEvaluationContext, database: Database) -> dg.SkipReason:
    """Empty the outbox. The relay launches the job that comes of it."""
    begun = time.monotonic()
    with transaction(database.engine) as connection:
        due = outbox.is_anything_due(connection)
    if not due:
        return dg.SkipReason("nothing has happened")
    done = outbox.run_once(database.engine)
    if done.jobs:
        context.log.info(f"{done.notices} notices in job {', '.join(done.jobs)}")
    return dg.SkipReason(f"{done.events} events, {done.notices} notices in {time.monotonic() - begun:.2f} s")


def notices(launched: list[Launchable]) -> dg.Definitions:
    return dg.Definitions(assets=[asset(1)], jobs=[each.job for each in launched], sensors=[empty])
