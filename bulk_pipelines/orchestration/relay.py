"""The relay launches a run for every job that wants one, and never two at the same time.

A job is offered until its run begins, always under the same key for one launch. Dagster knows a launch by this key, so
a tick that died half way, or two daemons, lead to one run. When a run was lost before it began, the sweeper gives its
job a new key.

While it listens for such jobs, the relay also looks for runs that a person has terminated.
"""

import time
from collections.abc import Callable, Sequence

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs
from bulk_pipelines.engine.jobs.dispatch import DispatchLimits, Offer
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.orchestration import terminations
from bulk_pipelines.orchestration.pipeline import Launchable, Pipeline, partitions
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.runs import LAUNCH_TAG

SECONDS_BETWEEN = 1
"""The seconds between two ticks, at least. Dagster's daemon looks every five seconds; an interval of five would make it
miss every second look."""
RUNS_LOOKED_AT = 10
RETRY_PATIENCE = 600.0
"""How many seconds a retry that Dagster has announced may take to come."""
LISTEN_SECONDS = 4.0
LOOK_AGAIN = 0.25


def relay(
    launchables: Sequence[Launchable], listen: float = LISTEN_SECONDS, name: str = "relay"
) -> dg.SensorDefinition:
    """Return one sensor for all kinds. `listen` says how many seconds a tick that finds nothing waits for jobs that
    come meanwhile."""
    by_kind = {each.pipeline.kind.name: each.pipeline for each in launchables}

    @dg.sensor(
        name=name,
        jobs=[each.job for each in launchables],
        minimum_interval_seconds=SECONDS_BETWEEN,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Launches the jobs that were submitted, resumed or lost their run; the most urgent first.",
    )
    def sensor(context: dg.SensorEvaluationContext, database: Database) -> dg.SensorResult | dg.SkipReason:
        look = terminations.watch(context.instance, database.engine, by_kind)
        said: list[str] = []

        def heed() -> None:
            for each in look():
                context.log.info(each)
                said.append(each)

        offered = heard(database.engine, sorted(by_kind), limits(settings.current()), listen, heed)
        if not offered:
            return dg.SkipReason("; ".join(said) or "no job wants a run")
        busy = {offer.job_key for offer, _ in offered if has_run(context.instance, offer)}
        if busy:
            with transaction(database.engine) as connection:
                dispatch.put_off(connection, sorted(busy))
            said.append(f"still in a run, and looked at again in some seconds: {', '.join(sorted(busy))}")
            context.log.info(said[-1])
            offered = [(offer, job) for offer, job in offered if offer.job_key not in busy]
            if not offered:
                return dg.SkipReason("; ".join(said))
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


def heard(
    pool: Engine, kinds: Sequence[str], limits: DispatchLimits, listen: float, meanwhile: Callable[[], None]
) -> list[tuple[Offer, Job]]:
    """Return the jobs that want a run now, or the first ones that come to want one while this listens."""
    deadline = time.monotonic() + listen
    while True:
        meanwhile()
        with transaction(pool) as connection:
            offers = dispatch.offers(connection, kinds, limits)
            offered = [(offer, jobs.find(connection, offer.job_key)) for offer in offers]
        if offered or time.monotonic() >= deadline:
            return offered
        time.sleep(LOOK_AGAIN)


def has_run(instance: dg.DagsterInstance, offer: Offer) -> bool:
    """Whether a run of an earlier launch of the job has not ended yet, or Dagster is about to start it again by itself.
    This is so when a job was paused and resumed at once, or redriven, or when its run has just spent its budget. If no
    process is behind that run, the sweeper ends it."""
    if not offer.dispatch_count:
        return False
    filters = dg.RunsFilter(tags={"dagster/partition": offer.job_key})
    records = instance.get_run_records(filters, limit=RUNS_LOOKED_AT)
    return any(not record.dagster_run.is_finished for record in records) or (
        bool(records) and will_come_again(records[0])
    )


def will_come_again(last: dg.RunRecord) -> bool:
    """Whether Dagster has announced that it starts this run again, and may still do so."""
    announced = last.dagster_run.tags.get("dagster/will_retry") == "true"
    return announced and last.end_time is not None and time.time() - last.end_time < RETRY_PATIENCE


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
