"""The records of an import by what became of them: those that were loaded, those that were rejected, and those that
were never decided about. Each kind can be had as a file: the records as they stood, in the order of the input."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from psycopg import sql

from bulk_pipelines import settings
from bulk_pipelines.columns.arrow import Numbers
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict, Gone, InvalidInput
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.load import rejects, tables
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.imports.plan.land.landing import opened
from bulk_pipelines.imports.reconcile.unreached import behind
from bulk_pipelines.imports.reconcile.unseen import Pace
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.blocks import Block, Position
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.imports.work import MAX_RECORD_BYTES
from bulk_pipelines.storage.errors import Missing

DECIDED = {JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS}
PIECE = 4 << 20


class Outcome(StrEnum):
    """What became of a record."""

    SUCCESSFUL = "successful"
    """The record was loaded, or a later record of an upsert with its key was, or a validation found it good."""
    FAILED = "failed"
    """The record was rejected."""
    UNPROCESSED = "unprocessed"
    """The record was never reached, or was read and then given up before anything was decided about it."""


@dataclass(frozen=True)
class Stretch:
    """A part of a file that was read, or that was not."""

    file: int
    piece: Range
    was_read: bool
    at: Position | None = None


def download(begin: Begin, job: Job, outcome: Outcome, number: int | None = None) -> tuple[Format, Iterator[bytes]]:
    """Return the records with this outcome as a file of the input's own format, in pieces. An import of several files
    with different columns has one such file for each of them: `number` says which is meant."""
    if not job.finished:
        raise Conflict(f"job {job.job_key} is {job.status}: nobody knows yet what becomes of its records")
    with begin() as connection:
        files = chosen(job, progress.files(connection, job.job_id), number)
        rejects.refuse_lacking(connection, job.job_id)
        stretches = stretches_of(connection, job)
        loaded = loaded_lines(connection, job)
    refuse_gone(job, files)
    assert files[0].layout is not None, "only such files are chosen"
    layout = files[0].layout.as_text
    raws = (
        raw
        for file in files
        for raw in records(begin, job, file, [each for each in stretches if each.file == file.number], outcome, loaded)
    )
    return layout.format, written(layout, unless_lacking(begin, job, raws))


def unless_lacking(begin: Begin, job: Job, raws: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the records. If retention has removed rejects meanwhile, some of them may have been taken for others: then
    raise `Gone` behind the last record."""
    yield from raws
    with begin() as connection:
        rejects.refuse_lacking(connection, job.job_id)


def chosen(job: Job, files: list[ImportFile], number: int | None) -> list[ImportFile]:
    """Return the files whose records are meant. They have the same columns."""
    read = [file for file in files if file.layout is not None and number in (None, file.number)]
    if not read:
        raise Conflict(
            f"job {job.job_key} has no file that was read" + (f" with the number {number}" if number else "")
        )
    layouts = [file.layout.as_text for file in read if file.layout is not None]
    if not all(layout.written_like(layouts[0]) for layout in layouts):
        raise InvalidInput("file", "the files of this import have different columns: name one by its number, from 1 on")
    return read


def refuse_gone(job: Job, files: list[ImportFile]) -> None:
    if len(landing.still_there(files, settings.current())) < len(files):
        raise Missing(f"a landed file of job {job.job_key} is not there any more: see BULK_KEEP_LANDED_DAYS")


def stretches_of(connection: Connection, job: Job) -> list[Stretch]:
    """Return what was read of the files and what was not, in the order of the input."""
    found: list[Stretch] = []
    rows = connection.execute(queries.text("import_lists", "ranges_read"), {"job_id": job.job_id}).fetchall()
    if len(rows) < job.total_items:
        raise Gone(f"retention has removed the ranges of job {job.job_key}: see BULK_KEEP_ITEMS_DAYS")
    for value, checkpoint, done in rows:
        pieces = progress.ranges_of(value)
        if done:
            found += [Stretch(number, piece, True) for number, piece in pieces]
            continue
        index = checkpoint["range"] if checkpoint else 0
        found += [Stretch(number, piece, True) for number, piece in pieces[:index]]
        if checkpoint and index < len(pieces):
            number, piece = pieces[index]
            found.append(Stretch(number, Range(piece.start, checkpoint["start"], piece.first_line), True))
        found += [Stretch(number, piece, False, at) for number, piece, at in behind(value, checkpoint)]
    return sorted(found, key=lambda each: (each.file, each.at.start if each.at else each.piece.start))


def loaded_lines(connection: Connection, job: Job) -> Numbers | None:
    """Return the lines that were loaded by an upsert that ended before its time, in order; None where it is enough that
    a record was read and not rejected."""
    request = ImportRequest.from_params(job.params)
    if request.mode is Mode.INSERT or job.status in DECIDED:
        return None
    if request.mode is Mode.VALIDATE:
        return np.array([], dtype=np.int64)
    rows = connection.execute(
        sql.SQL("SELECT import_line FROM {} WHERE import_job = {} ORDER BY 1").format(
            tables.table(request.declared), job.job_id
        )
    )
    return np.array([line for (line,) in rows], dtype=np.int64)


def records(
    begin: Begin, job: Job, file: ImportFile, stretches: list[Stretch], outcome: Outcome, loaded: Numbers | None
) -> Iterator[bytes]:
    """Yield the records of a file that have the outcome."""
    assert file.layout is not None
    with opened(file) as source:
        for each in stretches:
            if not each.was_read and outcome is not Outcome.UNPROCESSED:
                continue
            for block in blocks.read(source, file.layout, each.piece, Pace(), MAX_RECORD_BYTES, each.at):
                for index in wanted(begin, job, block, outcome, loaded) if each.was_read else range(len(block.spans)):
                    yield oversized(source, block) if block.oversized else block.raw(index)


def wanted(begin: Begin, job: Job, block: Block, outcome: Outcome, loaded: Numbers | None) -> Iterable[int]:
    """Return the numbers of those records in a block that have the outcome."""
    lines = block.spans.lines
    if not len(lines):
        return ()
    with begin() as connection:
        rows = connection.execute(
            queries.text("import_lists", "rejected_lines"),
            {"job_id": job.job_id, "first": int(lines[0]), "last": int(lines[-1])},
        )
        rejected = np.isin(lines, np.array([line for (line,) in rows], dtype=np.int64))
    good = ~rejected if loaded is None else ~rejected & np.isin(lines, loaded)
    mask = {Outcome.FAILED: rejected, Outcome.SUCCESSFUL: good, Outcome.UNPROCESSED: ~rejected & ~good}[outcome]
    return np.flatnonzero(mask).tolist()


def oversized(source: LandedFile, block: Block) -> bytes:
    """Return a record of which the block holds only the beginning."""
    return source.read(block.at.start, block.following.start).rstrip(b"\r\n").rstrip(b",")


def written(layout: Layout, raws: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a file with these records, in pieces of some size."""
    waiting: list[bytes] = [layout.header + b"\n"] if layout.header else []
    size = 0
    before, between, behind_all = (b"[\n", b",\n", b"\n]\n") if layout.format is Format.JSON else (b"", b"\n", b"\n")
    empty = True
    for raw in raws:
        waiting.append((before if empty else between) + raw)
        size += len(raw)
        empty = False
        if size > PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if not empty:
        waiting.append(behind_all)
    elif layout.format is Format.JSON:
        waiting.append(b"[]\n")
    yield b"".join(waiting)
