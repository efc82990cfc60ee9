"""A small kind of job for tests of the lanes: its items say what is to happen to them."""

import os
import signal
import time
from dataclasses import replace
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import adaptive, persist
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import dispatch, jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Unfinished
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.maintenance.definitions import maintenance, upkeep
from bulk_pipelines.orchestration.pipeline import Launchable, Metadata, Pipeline, partitions
from bulk_pipelines.orchestration.relay import relay
from bulk_pipelines.orchestration.resources import Database, step_executor
from bulk_pipelines.orchestration.steps import graph

LANES = 3


def handle(lease: Lease, tools: Tools) -> Outcome:
    first = lease.attempt_count == 1
    match lease.input.get("do"):
        case "pause" if first:
            press_pause(tools)
        case "bury beside another run" if not healed(tools.pool):
            another_run_works(tools)
            return Bury("cannot be done")
        case "die" if first:
            os.kill(os.getpid(), signal.SIGKILL)
        case "retry" if first:
            return RetryLater("not yet", after=1.0)
        case "bury" if not lease.input.get("mended") and not healed(tools.pool):
            return Bury("cannot be done")
        case "miss" if not healed(tools.pool):
            return NotFound("nobody answers")
        case "last":
            return lasting(lease, tools)
    return Done({"pid": os.getpid(), "attempt": lease.attempt_count})


def press_pause(tools: Tools) -> None:
    """Pause the job as a person does, while two runs are at it."""
    another_run_works(tools)
    with transaction(tools.pool) as connection:
        jobs.pause(connection, tools.job.job_key)


def another_run_works(tools: Tools) -> None:
    with transaction(tools.pool) as connection:
        dispatch.begun(connection, tools.job.job_id, "another run")


def lasting(lease: Lease, tools: Tools) -> Outcome:
    """Work many small steps, each with its checkpoint, and leave in the middle when asked to."""
    begun = (lease.checkpoint or {"step": 0})["step"]
    for step in range(begun, lease.input["steps"]):
        if tools.stopping():
            return Unfinished()
        time.sleep(0.25)
        with transaction(tools.pool) as connection:
            tools.hold(connection, lease)
            tools.checkpoint(connection, lease, {"step": step + 1})
    return Done({"from": begun})


def healed(pool: Engine) -> bool:
    """Whether a test has put right what was wrong."""
    with transaction(pool) as connection:
        row = connection.execute("SELECT to_regclass('healed') IS NOT NULL").fetchone()
    return bool(row and row[0])


def plan(pool: Engine, job: Job) -> Job:
    if job.params.get("refuse"):
        raise InvalidInput("source", "is no good")
    items: list[tuple[str, dict[str, Any]]] = [(f"{n:05}", item) for n, item in enumerate(job.params["items"])]
    persist.add_items(pool, job.job_id, items, adaptive.BatchSizer.within(adaptive.BatchLimits()))
    with transaction(pool) as connection:
        return jobs.seal(connection, job.job_id)


def report(pool: Engine, job: Job) -> Metadata:
    return {"items": job.total_items, "succeeded": job.succeeded_items}


KIND = Kind("echo", handle, fail_fast=True, slices=SliceLimits(first_claim=2, max_claim=5, lease_floor=3.0))
PIPELINE = Pipeline(KIND, plan, report)
PATIENT_KIND = replace(KIND, name="patient_echo", fail_fast=False, retry=RetryPolicy(not_found_attempts=1))
PATIENT_PIPELINE = replace(PIPELINE, kind=PATIENT_KIND)
"""A pipeline whose jobs go on beside their dead letters."""

echoes = dg.graph_asset(name="echoes", partitions_def=partitions("echo"))(graph(PIPELINE, LANES))
echo = dg.define_asset_job("echo", selection=[echoes])
patient_echoes = dg.graph_asset(name="patient_echoes", partitions_def=partitions("patient_echo"))(
    graph(PATIENT_PIPELINE, LANES)
)
patient_echo = dg.define_asset_job("patient_echo", selection=[patient_echoes])

launchables = [Launchable(PIPELINE, echo), Launchable(PATIENT_PIPELINE, patient_echo)]

defs = dg.Definitions.merge(
    maintenance(upkeep(launchables)),
    dg.Definitions(
        assets=[echoes, patient_echoes],
        jobs=[echo, patient_echo],
        sensors=[relay(launchables, listen=0)],
        resources={"database": Database()},
        executor=step_executor,
    ),
)
