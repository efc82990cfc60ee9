"""The end of an import: what only the whole file can tell, what was never reached, and what it all came to."""

import logging
from collections import defaultdict
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines import resources
from bulk_pipelines.database import advisory, queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.engine.kinds import Ending
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.imports import blocks, progress, settlement, unread, waiting
from bulk_pipelines.imports.asked import Asked
from bulk_pipelines.imports.blocks import Position
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.cutting import Range
from bulk_pipelines.imports.handling import MAX_RECORD_BYTES, Plan, plan_of
from bulk_pipelines.imports.landed import opened
from bulk_pipelines.imports.names import name_of
from bulk_pipelines.imports.progress import ImportFile, Progress
from bulk_pipelines.imports.terms import Mode
from bulk_pipelines.imports.unread import Pace

log = logging.getLogger(__name__)
Connection = psycopg.Connection[Any]

HIGH_ERROR_RATE = 0.1
AT_A_TIME = 100


def settle(pool: Engine, job: Job) -> None:
    """Puts right what batches, coming in any order, could not know of each other. Can be cut short and called again."""
    plan = plan_of(pool, job.job_id, job.job_key)
    ranges = ranges_by_file(pool, job)
    landed = [file for file in plan.files.values() if file.layout is not None]
    if landed:
        # The records of all files are decided together, by the first one's settling.
        settle_file(pool, job, plan, landed[0], ranges[landed[0].number])
        for file in with_unread(pool, job, landed):
            settle_file(pool, job, plan, file, ranges[file.number])
    with transaction(pool) as connection:
        progress.set_unprocessed(connection, job.job_id, count_unprocessed(connection, job, plan))


def settle_file(pool: Engine, job: Job, plan: Plan, file: ImportFile, ranges: list[Range]) -> None:
    assert file.layout is not None
    with opened(file) as source:
        settlement.settle(
            lambda: transaction(pool),
            plan.terms(job, file),
            source,
            file.layout,
            ranges,
            lambda connection, counts: progress.add(connection, job.job_id, counts),
        )


def with_unread(pool: Engine, job: Job, files: list[ImportFile]) -> list[ImportFile]:
    """The files that hold records which were rejected unseen, and are to be read again."""
    with transaction(pool) as connection:
        lines = unread.unread_lines(connection, job.job_id, 0, unread.BEHIND_ALL)
    borders = [file.base_line for file in files[1:]] + [unread.BEHIND_ALL]
    return [
        file
        for file, border in zip(files, borders, strict=True)
        if ((lines > file.base_line) & (lines <= border)).any()
    ]


def finish(connection: Connection, job: Job) -> Ending:
    """By what became of the records: the counters of the items only say that all ranges were read."""
    found = progress.read(connection, job.job_id)
    counts = found.counts
    result = summary(connection, job, found)
    tell(job, result)
    reason = Asked.from_params(job.params).policy.broken_by(counts, at_end=True)
    if reason is not None:
        return Ending(JobEvent.FAIL, result, reason)
    if counts.read and not counts.loaded + counts.superseded + counts.valid:
        return Ending(JobEvent.FAIL, result, f"nothing could be loaded: all {counts.read:,} records were rejected")
    if job.dlq_items:
        return Ending(JobEvent.COMPLETE_WITH_ERRORS, result, f"{job.dlq_items} ranges could not be loaded")
    left_out = any(each["note"] and not each["duplicate"] for each in result["files"])
    clean = not counts.rejected and not found.unprocessed and not left_out
    return Ending(JobEvent.COMPLETE if clean else JobEvent.COMPLETE_WITH_ERRORS, result)


def wind_up(pool: Engine, job_key: str) -> None:
    """Of an import that ended before its time, cancelled or aborted: nothing half decided stays, and what was never
    reached is counted. Called by whoever sees such an import first; the others find it done."""
    with advisory.held(pool, f"bulk_pipelines.settle.{job_key}") as ours:
        if not ours:
            return
        with transaction(pool) as connection:
            job = jobs.find(connection, job_key)
        if not job.finished or job.result is not None or job.planned_at is None or job.running_items:
            return
        plan = plan_of(pool, job.job_id, job.job_key)
        if plan.asked.mode is Mode.UPSERT:
            discard_waiting(pool, job, plan)
        settle(pool, job)
        with transaction(pool) as connection:
            result = summary(connection, job, progress.read(connection, job.job_id))
            jobs.set_result(connection, job.job_id, result)
        tell(job, result)


def discard_waiting(pool: Engine, job: Job, plan: Plan) -> None:
    """An upsert decides at its end; one that has no end changes nothing."""
    file = next(file for file in plan.files.values() if file.layout is not None)
    with transaction(pool) as connection:
        removed = waiting.remove(connection, plan.terms(job, file))
        progress.add(connection, job.job_id, Counts(read=-removed, waiting=-removed))


def wind_up_all(pool: Engine) -> int:
    """Imports that nobody was left to wind up; returns how many."""
    kinds = [name_of(resource.name) for resource in resources.RESOURCES]
    with transaction(pool) as connection:
        values = {"kinds": kinds, "most": AT_A_TIME}
        rows = connection.execute(queries.text("import_progress", "ended_without_result"), values).fetchall()
    for (job_key,) in rows:
        wind_up(pool, job_key)
    return len(rows)


def ranges_by_file(pool: Engine, job: Job) -> dict[int, list[Range]]:
    with transaction(pool) as connection:
        rows = connection.execute(queries.text("import_progress", "ranges"), {"job_id": job.job_id}).fetchall()
    found: dict[int, list[Range]] = defaultdict(list)
    for (value,) in rows:
        for number, piece in progress.ranges_of(value):
            found[number].append(piece)
    return found


def count_unprocessed(connection: Connection, job: Job, plan: Plan) -> int:
    """The records that are in the files and were never read: those of ranges that did not come to their end."""
    in_all = 0
    rows = connection.execute(queries.text("import_progress", "unfinished_ranges"), {"job_id": job.job_id}).fetchall()
    for value, checkpoint in rows:
        in_all += sum(records_left(plan, number, piece, at) for number, piece, at in left_of(value, checkpoint))
    if plan.asked.mode is Mode.UPSERT and job.finished:
        # Nothing of it was decided, so all of it counts as never reached.
        return sum(records_left(plan, *each, None) for value in all_ranges(connection, job) for each in value)
    return in_all


def all_ranges(connection: Connection, job: Job) -> list[list[tuple[int, Range]]]:
    rows = connection.execute(queries.text("import_progress", "ranges"), {"job_id": job.job_id}).fetchall()
    return [progress.ranges_of(value) for (value,) in rows]


def left_of(value: dict[str, Any], checkpoint: dict[str, Any] | None) -> list[tuple[int, Range, Position | None]]:
    """The ranges of an item from where it was left."""
    index = checkpoint["range"] if checkpoint else 0
    at = Position(checkpoint["start"], checkpoint["line"]) if checkpoint else None
    ranges = progress.ranges_of(value)[index:]
    return [(number, piece, at if place == 0 else None) for place, (number, piece) in enumerate(ranges)]


def records_left(plan: Plan, number: int, piece: Range, at: Position | None) -> int:
    file = plan.files[number]
    assert file.layout is not None
    with opened(file) as source:
        return sum(len(each.spans) for each in blocks.read(source, file.layout, piece, Pace(), MAX_RECORD_BYTES, at))


def summary(connection: Connection, job: Job, found: Progress) -> dict[str, Any]:
    """What is kept with the job, shown in the UI, and logged."""
    counts = found.counts
    row = connection.execute(
        "SELECT extract(epoch FROM clock_timestamp() - %s)::float8", [job.started_at or job.created_at]
    ).fetchone()
    seconds = row[0] if row else 0.0
    return vars(counts) | {
        "unprocessed": found.unprocessed,
        "batches": found.batches,
        "seconds": round(seconds, 3),
        "rows_per_second": round(counts.read / seconds, 1) if seconds > 0 else 0.0,
        "error_rate": round(counts.rejected / counts.read, 6) if counts.read else 0.0,
        "files": [file.as_outcome() for file in progress.files(connection, job.job_id)],
    }


def tell(job: Job, result: dict[str, Any]) -> None:
    said = {key: result[key] for key in ("read", "loaded", "rejected", "unprocessed", "batches")}
    said |= {"rows_per_second": result["rows_per_second"], "error_rate": result["error_rate"]}
    said |= {"duration_seconds": result["seconds"], "job": job.job_key, "request_id": job.request_id}
    line = " ".join(f"{key}={value}" for key, value in said.items())
    log.info("import ended %s", line, extra={"import_ended": said})
    if result["error_rate"] > HIGH_ERROR_RATE:
        log.warning("high error rate %s", line, extra={"import_ended": said})
