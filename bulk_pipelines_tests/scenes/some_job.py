"""A job as the database might have it, for what only reads one."""

from datetime import UTC, datetime

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState

NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)

SOME_JOB = Job(
    job_id=1,
    job_key="J20260110_000777",
    kind="import_users",
    owner="me",
    origin="cli",
    params={},
    status=JobState.RUNNING,
    fail_fast=False,
    planned_at=NOON,
    total_items=1,
    pending_items=0,
    running_items=0,
    retry_wait_items=0,
    succeeded_items=0,
    not_found_items=0,
    skipped_items=0,
    dlq_items=0,
    cancelled_items=0,
    attempts=1,
    last_error=None,
    result=None,
    request_id=None,
    trace_parent=None,
    dagster_run_id=None,
    created_at=NOON,
    started_at=NOON,
    heartbeat_at=NOON,
    finished_at=None,
)
