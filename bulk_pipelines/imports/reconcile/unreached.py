"""The records that an import never reached: those in ranges that were not read to their end."""

import logging
from collections import defaultdict
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.plan.land.landing import opened
from bulk_pipelines.imports.reconcile.unseen import Pace
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.blocks import Position
from bulk_pipelines.imports.work import MAX_RECORD_BYTES, Plan

log = logging.getLogger(__name__)


def ranges_by_file(connection: Connection, job_id: int) -> dict[int, list[Range]]:
    rows = connection.execute(queries.text("import_progress", "ranges"), {"job_id": job_id}).fetchall()
    found: dict[int, list[Range]] = defaultdict(list)
    for (value,) in rows:
        for number, piece in progress.ranges_of(value):
            found[number].append(piece)
    return found


def count(pool: Engine, job: Job, plan: Plan) -> None:
    """Count the records that the import never reached, and write down how many they are."""
    query = queries.text("import_progress", "unfinished_ranges")
    with transaction(pool) as connection:
        rows = connection.execute(query, {"job_id": job.job_id}).fetchall()
    pieces = [piece for value, checkpoint in rows for piece in behind(value, checkpoint)]
    there = still_there(plan, {number for number, *_ in pieces})
    found = sum(records(plan, *piece) for piece in pieces if piece[0] in there)
    with transaction(pool) as connection:
        progress.set_unprocessed(connection, job.job_id, found)


def still_there(plan: Plan, numbers: set[int]) -> set[int]:
    """Return the numbers of those of these files that can still be read, and log the others. Somebody removed or
    replaced them: nobody can tell what was in them, and the import must end all the same."""
    there = landing.still_there([plan.files[number] for number in numbers], settings.current())
    gone = numbers - {file.number for file in there}
    for number in sorted(gone):
        log.warning(
            "%s is not there as it was landed, and what was not read of it cannot be counted", plan.files[number].landed
        )
    return numbers - gone


def behind(value: dict[str, Any], checkpoint: dict[str, Any] | None) -> list[tuple[int, Range, Position | None]]:
    """Return the ranges of an item that were not read to their end, each with its file, and where reading goes on."""
    index = checkpoint["range"] if checkpoint else 0
    at = Position(checkpoint["start"], checkpoint["line"]) if checkpoint else None
    ranges = progress.ranges_of(value)[index:]
    return [(number, piece, at if place == 0 else None) for place, (number, piece) in enumerate(ranges)]


def records(plan: Plan, number: int, piece: Range, at: Position | None) -> int:
    file = plan.files[number]
    assert file.layout is not None
    with opened(file) as source:
        return sum(len(each.spans) for each in blocks.read(source, file.layout, piece, Pace(), MAX_RECORD_BYTES, at))
