"""From sources to items: each file is landed, examined, and cut into ranges. Planning again comes to the same."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs, persist
from bulk_pipelines.engine.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.jobs import Job
from bulk_pipelines.engine.retry import storable
from bulk_pipelines.errors import BulkError, InvalidInput, Unavailable
from bulk_pipelines.imports import agreement, cutting, landed, layout, progress
from bulk_pipelines.imports.asked import Asked, AskedFile
from bulk_pipelines.imports.cutting import Range
from bulk_pipelines.imports.landed import opened
from bulk_pipelines.imports.layout import Layout
from bulk_pipelines.imports.progress import ImportFile
from bulk_pipelines.imports.terms import Mode, matching_key
from bulk_pipelines.storage import addresses
from bulk_pipelines.storage.errors import Missing, SourceChanged

log = logging.getLogger(__name__)

RANGE_BYTES = 16 * 1024 * 1024
FILES_AT_ONCE = 8

Piece = tuple[int, Range]


def plan(pool: Engine, job: Job) -> None:
    asked = Asked.from_params(job.params)
    with transaction(pool) as connection:
        agreement.check(connection, asked.declared, asked.mode)
    chosen = settings.current()
    before = noted_before(pool, job, chosen)
    with ThreadPoolExecutor(FILES_AT_ONCE, "landing") as executor:
        numbered = enumerate(asked.files, 1)
        copies = list(
            executor.map(lambda each: before.get(each[0]) or land(job, asked, each[0], each[1], chosen), numbered)
        )
    files: list[ImportFile] = []
    pieces: list[Piece] = []
    base = 0
    for file in copies:
        found, ranges = examined(asked, file, base)
        if asked.mode is Mode.UPSERT and unlike(files, found):
            # An upsert is decided for all files together, by what they all give.
            note = "its columns are not those of the files before it: upsert it by itself"
            found, ranges = ImportFile(**(vars(found) | {"landed": None, "layout": None, "note": note})), []
        files.append(found)
        pieces += [(found.number, piece) for piece in ranges]
        # No file has more lines than bytes, so the lines of two files never meet.
        base += found.size or 0
    if not any(file.landed or file.duplicate for file in files):
        note_files(pool, job, files)
        raise InvalidInput("source", "; ".join(told(file, len(files)) for file in files[:5]))
    with transaction(pool) as connection:
        progress.begin(connection, job.job_id)
    note_files(pool, job, files)
    persist.add_items(pool, job.job_id, items(pieces), BatchSizer.within(BatchLimits()))
    with transaction(pool) as connection:
        jobs.seal(connection, job.job_id)


def note_files(pool: Engine, job: Job, files: list[ImportFile]) -> None:
    """What each is: whoever looks after one of them need not read what is wrong with the others."""
    with transaction(pool) as connection:
        for file in files:
            progress.add_file(connection, job.job_id, file)


def noted_before(pool: Engine, job: Job, chosen: settings.Settings) -> dict[int, ImportFile]:
    """The files as a try noted them that was cut short afterwards. There may be items of theirs already, so whatever
    became of the sources since is of no matter. If none of them was good, there are none, and all are tried again."""
    with transaction(pool) as connection:
        noted = progress.files(connection, job.job_id)
    if not any(file.landed or file.duplicate for file in noted):
        return {}
    return {file.number: file for file in noted if landed.is_there(file, chosen)}


def unlike(before: list[ImportFile], file: ImportFile) -> bool:
    """Whether this file has other columns than those that are to be read before it."""
    first = next((each.layout for each in before if each.layout is not None), None)
    if first is None or file.layout is None:
        return False
    return set(first.columns) != set(file.layout.columns)


def told(file: ImportFile, among: int) -> str:
    note = (file.note or "").removeprefix("source: ")
    return note if among == 1 else f"{file.source}: {note}"


def land(job: Job, asked: Asked, number: int, file: AskedFile, chosen: settings.Settings) -> ImportFile:
    """The copy that everything else reads. A file that is no good is not the end of the others."""
    shown = addresses.redacted(file.source)
    try:
        copy = landed.land(asked, file, f"{job.job_key}/{number:06}", chosen)
    except BulkError as error:
        # A version that is gone never comes back: to try again would be of no use, and to take another one wrong.
        gone = landed.gone(asked, file, chosen) if isinstance(error, SourceChanged | Missing) else None
        if gone is None and isinstance(error, Unavailable):
            raise  # may pass: the whole plan is tried again
        return ImportFile(number, shown, None, None, None, None, 0, duplicate=False, note=storable(gone or str(error)))
    if copy.sha256 in file.known_sha256:
        known = "this content was imported before"
        return ImportFile(number, shown, None, copy.bytes, copy.sha256, None, 0, duplicate=True, note=known)
    return ImportFile(number, shown, copy.url, copy.bytes, copy.sha256, None, 0, duplicate=False, note=None)


def examined(asked: Asked, file: ImportFile, base: int) -> tuple[ImportFile, list[Range]]:
    """What the file is, and its ranges; lines are counted on from those of the files before it."""
    if file.landed is None:
        return file, []
    try:
        with opened(file) as source:
            found = layout.inspect(source, asked.declared, asked.format, certain=asked.files[file.number - 1].format)
            if asked.mode is Mode.UPSERT:
                matching_key(asked.declared, asked.match_on, found.columns)
            shifted = Layout(found.format, found.columns, found.start, found.first_line + base, found.header)
            ranges = cutting.cut(source, shifted, RANGE_BYTES)
    except InvalidInput as error:
        return ImportFile(**(vars(file) | {"landed": None, "note": storable(str(error))})), []
    return ImportFile(**(vars(file) | {"layout": shifted, "base_line": base})), ranges


def items(pieces: list[Piece]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A large range is an item of its own; small ones share one, so that many small files are few items."""
    together: list[Piece] = []
    size = 0
    number = 0
    for piece in pieces:
        length = piece[1].stop - piece[1].start
        if together and size + length > RANGE_BYTES:
            number += 1
            yield item(number, together)
            together, size = [], 0
        together.append(piece)
        size += length
    if together:
        yield item(number + 1, together)


def item(number: int, pieces: list[Piece]) -> tuple[str, dict[str, Any]]:
    ranges = [[file, piece.start, piece.stop, piece.first_line] for file, piece in pieces]
    return f"{number:06}", {"ranges": ranges}
