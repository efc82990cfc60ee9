"""The relay: every job that wants a run gets one, and never two at the same time.

A job is offered until its run begins, always under the key of that launch, by which Dagster knows it: a tick that died
half way, or two daemons, come to one run. A run that was lost before it began gets a new key from the sweeper.
"""

from collections.abc import Sequence

import dagster as dg

from bulk_pipelines import settings
from bulk_pipelines.dagster_resources import Database
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import dispatch, jobs
from bulk_pipelines.engine.dispatch import DispatchLimits, Offer
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.lanes.definitions import Launchable, Pipeline, partitions

SECONDS_BETWEEN = 5


def relay(launchables: Sequence[Launchable]) -> dg.SensorDefinition:
    """One sensor for all kinds."""
    by_kind = {each.pipeline.kind.name: each.pipeline for each in launchables}

    @dg.sensor(
        name="relay",
        jobs=[each.job for each in launchables],
        minimum_interval_seconds=SECONDS_BETWEEN,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Launches the jobs that were submitted, resumed or lost their run; the most urgent first.",
    )
    def sensor(context: dg.SensorEvaluationContext, database: Database) -> dg.SensorResult | dg.SkipReason:
        with transaction(database.engine) as connection:
            offers = dispatch.offers(connection, sorted(by_kind), limits(settings.current()))
            offered = [(offer, jobs.find(connection, offer.job_key)) for offer in offers]
        if not offered:
            return dg.SkipReason("no job wants a run")
        context.log.info("offering " + ", ".join(offer.job_key for offer in offers))
        return dg.SensorResult(
            run_requests=[request(by_kind[offer.kind], offer, job) for offer, job in offered],
            dynamic_partitions_requests=[
                partitions(kind).build_add_request([offer.job_key for offer in offers if offer.kind == kind])
                for kind in sorted({offer.kind for offer in offers})
            ],
        )

    return sensor


def limits(chosen: settings.Settings) -> DispatchLimits:
    return DispatchLimits(of_kind=chosen.jobs_of_kind, of_owner=chosen.jobs_of_owner)


def request(pipeline: Pipeline, offer: Offer, job: Job) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=offer.key,
        job_name=offer.kind,
        partition_key=offer.job_key,
        run_config=pipeline.run_config(job),
        tags={"bulk/owner": job.owner, "bulk/origin": job.origin, "dagster/priority": str(offer.priority)},
    )
