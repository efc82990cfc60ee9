"""The end of an import: reconciling its records, deciding how its job ends, and summing up what became of them."""

from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Begin, Connection, transaction
from bulk_pipelines.engine.jobs import end as engine_finish
from bulk_pipelines.engine.jobs import telling
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Ending
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.context import Mode, matching_key
from bulk_pipelines.imports.counts import Counts, records_were
from bulk_pipelines.imports.load import refusals, rejects, staging
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.land.landing import opened
from bulk_pipelines.imports.progress import Progress
from bulk_pipelines.imports.reconcile import reconciling, unreached, unseen
from bulk_pipelines.imports.reconcile.control import Control
from bulk_pipelines.imports.records.parsed import shown
from bulk_pipelines.imports.report import report
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.imports.work import Plan, plan_of
from bulk_pipelines.telemetry import events

HIGH_ERROR_RATE = 0.1


def reconcile(pool: Engine, job: Job) -> bool:
    """Put right what batches, loaded in any order, could not know of each other. This can be cut short and called
    again. Return false if the import was overtaken, by a pause for instance, and is not to be ended."""
    plan = plan_of(pool, job)
    unreached.count(pool, job, plan)
    landed = next(iter(readable(plan)), None)
    if landed is None:
        return True
    assert landed.layout is not None
    # The records of all files are decided together, on the context of the first one.
    context = plan.context(job, landed)
    with refusals.explained(pool, context):
        return reconciling.reconcile(lambda: transaction(pool), context, landed.layout, control(job, plan))


def readable(plan: Plan) -> list[ImportFile]:
    return [file for file in plan.files.values() if file.layout is not None]


def may_go_on(job: Job) -> bool:
    """Tell whether a redrive may still add records to those that were read, even after the job has ended."""
    return job.dlq_items > 0 and job.status is not JobState.CANCELLED


def control(job: Job, plan: Plan) -> Control:
    def accepts(connection: Connection, more: int) -> bool:
        counts = progress.read(connection, job.job_id).counts + Counts(rejected=more)
        return plan.request.policy.broken_by(counts, at_end=True) is None

    def at_work(connection: Connection) -> bool:
        row = connection.execute(queries.text("jobs", "job_status"), {"job_id": job.job_id}).fetchone()
        return row is not None and row[0] == JobState.RUNNING

    return Control(
        more_may_come=may_go_on(job),
        note=lambda connection, counts: progress.add(connection, job.job_id, counts),
        complete=lambda begin: complete_rejects(begin, job, plan),
        accepts=accepts,
        at_work=at_work,
        end=lambda connection: engine_finish.end_in(connection, finish, job.job_key),
    )


def complete_rejects(begin: Begin, job: Job, plan: Plan) -> None:
    """Read those records again that were rejected without being at hand, from the files that hold any of them, and
    store them with their rejects."""
    files = readable(plan)
    if not files:
        return  # all files were left out
    with begin() as connection:
        lines = unseen.unread_lines(connection, job.job_id, 0, unseen.BEHIND_ALL)
        ranges = unreached.ranges_by_file(connection, job.job_id)
    borders = [file.base_line for file in files[1:]] + [unseen.BEHIND_ALL]
    wanted = [
        file
        for file, border in zip(files, borders, strict=True)
        if ((lines > file.base_line) & (lines <= border)).any()
    ]
    there = unreached.still_there(plan, {file.number for file in wanted})
    for file in wanted:
        if file.layout is not None and file.number in there:
            with opened(file) as source:
                unseen.complete(begin, plan.context(job, file), source, file.layout, ranges[file.number])


def finish(connection: Connection, job: Job) -> Ending:
    """Decide how the job ends by what became of its records. The counters of its items only say how its ranges went."""
    found = progress.read(connection, job.job_id)
    counts = found.counts
    request = ImportRequest.from_params(job.params)
    result = summary(connection, job, request, found)
    tell(job, result)
    if not may_go_on(job):
        staging.drop(connection, request.declared, job.job_id)
    reason = request.policy.broken_by(counts, at_end=True)
    if reason is not None:
        return Ending(JobEvent.FAIL, result, reason)
    buried = why_buried(connection, job)
    if counts.waiting:
        return Ending(JobEvent.FAIL, result, f"nothing was decided, as {buried}")
    if not counts.loaded + counts.valid:
        if job.dlq_items:
            return Ending(JobEvent.FAIL, result, f"nothing was loaded, as {buried}")
        if counts.read or counts.unprocessed:
            return Ending(JobEvent.FAIL, result, f"{nothing_loaded(counts)}{first_reject(connection, job)}")
    if job.dlq_items:
        return Ending(JobEvent.COMPLETE_WITH_ERRORS, result, buried)
    clean = not counts.rejected and not counts.unprocessed and not result["files_left_out"]
    return Ending(JobEvent.COMPLETE if clean else JobEvent.COMPLETE_WITH_ERRORS, result)


def nothing_loaded(counts: Counts) -> str:
    if counts.rejected == counts.read and not counts.unprocessed:
        whole = "the only record was" if counts.read == 1 else f"all {records_were(counts.read)}"
        return f"nothing could be loaded: {whole} rejected"
    return (
        f"nothing could be loaded: {records_were(counts.rejected)} rejected, {counts.superseded:,} superseded, "
        f"{counts.unprocessed:,} never reached"
    )


def why_buried(connection: Connection, job: Job) -> str:
    """Say how many ranges are in the DLQ, with the error of the first one and where the others are found. Return an
    empty text if there are none."""
    if not job.dlq_items:
        return ""
    row = connection.execute(queries.text("import_progress", "first_burial"), {"job_id": job.job_id}).fetchone()
    error = " ".join((row[0] if row and row[0] else "no reason was recorded").split())
    many = f"{job.dlq_items} of {counted(job.total_items, 'range')} could not be loaded"
    return f"{many} ({shown(error)}): bulk dlq list --job {job.job_key}"


def first_reject(connection: Connection, job: Job) -> str:
    for first in rejects.page(connection, job.job_id, limit=1):
        reason = first.reasons[0]
        said = ": ".join(str(reason[name]) for name in ("code", "field", "detail") if reason.get(name))
        return f", the one in line {first.line} for {said}: bulk import errors {job.job_key}"
    return ""


def summary(connection: Connection, job: Job, request: ImportRequest, found: Progress) -> dict[str, Any]:
    """Build the result that is kept with the job, shown in the UI, and logged."""
    counts = found.counts
    began = job.started_at or job.created_at
    row = connection.execute(
        "SELECT extract(epoch FROM clock_timestamp() - %s)::float8, extract(epoch FROM clock_timestamp() - %s)::float8",
        [began, job.planned_at or began],
    ).fetchone()
    seconds, load_seconds = row or (0.0, 0.0)
    files = progress.files(connection, job.job_id)
    matched = {"match_on": matched_on(request, files)} if request.mode is Mode.UPSERT else {}
    return {
        **vars(counts),
        **matched,
        "inserted": counts.inserted,
        "batches": found.batches,
        "seconds": round(seconds, 3),
        "load_seconds": round(load_seconds, 3),
        "rows_per_second": round(counts.read / load_seconds, 1) if load_seconds > 0 else 0.0,
        "error_rate": round(counts.rejected / counts.read, 6) if counts.read else 0.0,
        "files": [file.as_outcome() for file in report.worth_showing(files)],
        "file_count": len(files),
        "files_left_out": sum(file.left_out for file in files),
    }


def matched_on(request: ImportRequest, files: list[ImportFile]) -> str | None:
    """Return the key by which an upsert has matched records and rows; None if it came to no file."""
    for file in files:
        if file.layout is not None:
            columns = file.layout.columns
            return matching_key(request.declared.narrowed(columns), request.match_on, columns).name
    return request.match_on


def tell(job: Job, result: dict[str, Any]) -> None:
    with telling.about(job):
        events.info(
            "import completed",
            resource_type=job.params.get("resource"),
            mode=job.params.get("mode"),
            total_records=result["read"] + result["unprocessed"],
            successful_records=result["loaded"] + result["valid"] + result["superseded"],
            failed_records=result["rejected"],
            unprocessed_records=result["unprocessed"],
            batch_count=result["batches"],
            duration_ms=round(result["seconds"] * 1000),
            rows_per_sec=result["rows_per_second"],
            error_rate=result["error_rate"],
        )
        if result["error_rate"] > HIGH_ERROR_RATE:
            events.warning("high error rate detected", error_rate=result["error_rate"])
