"""The relay: every job that wants a run gets one, and never two at the same time.

A job is offered until its run begins, always under the key of that launch, by which Dagster knows it: a tick that died
half way, or two daemons, come to one run. A run that was lost before it began gets a new key from the sweeper.
"""

import time
from collections.abc import Sequence

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.dagster_resources import Database
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import dispatch, jobs
from bulk_pipelines.engine.dispatch import DispatchLimits, Offer
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.lanes.definitions import LAUNCH_TAG, Launchable, Pipeline, partitions

SECONDS_BETWEEN = 1
"""Dagster's daemon looks every five seconds; an interval of five would make it miss every second look."""
LISTEN_SECONDS = 4.0
LOOK_AGAIN = 0.25


def relay(launchables: Sequence[Launchable], listen: float = LISTEN_SECONDS) -> dg.SensorDefinition:
    """One sensor for all kinds. `listen`: how long a tick that finds nothing stays, for what comes meanwhile."""
    by_kind = {each.pipeline.kind.name: each.pipeline for each in launchables}

    @dg.sensor(
        name="relay",
        jobs=[each.job for each in launchables],
        minimum_interval_seconds=SECONDS_BETWEEN,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Launches the jobs that were submitted, resumed or lost their run; the most urgent first.",
    )
    def sensor(context: dg.SensorEvaluationContext, database: Database) -> dg.SensorResult | dg.SkipReason:
        offered = heard(database.engine, sorted(by_kind), limits(settings.current()), listen)
        if not offered:
            return dg.SkipReason("no job wants a run")
        offers = [offer for offer, _ in offered]
        context.log.info("offering " + ", ".join(offer.job_key for offer in offers))
        return dg.SensorResult(
            run_requests=[request(by_kind[offer.kind], offer, job) for offer, job in offered],
            dynamic_partitions_requests=[
                partitions(kind).build_add_request([offer.job_key for offer in offers if offer.kind == kind])
                for kind in sorted({offer.kind for offer in offers})
            ],
        )

    return sensor


def heard(pool: Engine, kinds: Sequence[str], limits: DispatchLimits, listen: float) -> list[tuple[Offer, Job]]:
    """What wants a run now, or comes to want one while this listens."""
    deadline = time.monotonic() + listen
    while True:
        with transaction(pool) as connection:
            offers = dispatch.offers(connection, kinds, limits)
            offered = [(offer, jobs.find(connection, offer.job_key)) for offer in offers]
        if offered or time.monotonic() >= deadline:
            return offered
        time.sleep(LOOK_AGAIN)


def limits(chosen: settings.Settings) -> DispatchLimits:
    return DispatchLimits(of_kind=chosen.jobs_of_kind, of_owner=chosen.jobs_of_owner)


def request(pipeline: Pipeline, offer: Offer, job: Job) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=offer.key,
        job_name=offer.kind,
        partition_key=offer.job_key,
        run_config=pipeline.run_config(job),
        tags={
            "bulk/owner": job.owner,
            "bulk/origin": job.origin,
            "dagster/priority": str(offer.priority),
            LAUNCH_TAG: str(offer.dispatch_count),
        },
    )
