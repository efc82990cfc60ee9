"""Planning an import, from sources to items: each file is landed, examined, and cut into ranges. Planning it again
comes to the same items."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.worker.retry import storable
from bulk_pipelines.errors import BulkError, InvalidInput, Unavailable
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.context import Mode, matching_key
from bulk_pipelines.imports.plan import agreement, landing, layout
from bulk_pipelines.imports.plan import ranges as cutting
from bulk_pipelines.imports.plan.landing import opened
from bulk_pipelines.imports.plan.layout import Layout
from bulk_pipelines.imports.plan.ranges import Range
from bulk_pipelines.imports.progress import ImportFile
from bulk_pipelines.imports.request import ImportRequest, RequestedFile
from bulk_pipelines.imports.sent import planning as sent
from bulk_pipelines.imports.sent.uploads import Upload
from bulk_pipelines.storage import addresses
from bulk_pipelines.storage.errors import Missing, SourceChanged

log = logging.getLogger(__name__)

RANGE_BYTES = 16 * 1024 * 1024
FILES_AT_ONCE = 8

Piece = tuple[int, Range]


def plan(pool: Engine, job: Job) -> None:
    request = ImportRequest.from_params(job.params)
    with transaction(pool) as connection:
        agreement.check(connection, request.declared, request.mode)
    chosen = settings.current()
    before = noted_before(pool, job, chosen)
    upload = sent.upload_of(pool, job)
    with ThreadPoolExecutor(FILES_AT_ONCE, "landing") as executor:
        numbered = enumerate(request.files, 1)
        copies = list(
            executor.map(
                lambda each: (
                    before.get(each[0])
                    or (land_sent(upload, request, chosen) if upload else land(job, request, each[0], each[1], chosen))
                ),
                numbered,
            )
        )
    files: list[ImportFile] = []
    pieces: list[Piece] = []
    base = 0
    for file in copies:
        found, ranges = examined(request, file, base)
        if request.mode is Mode.UPSERT and unlike(files, found):
            # An upsert is decided for all files together, so all of them must have the same columns.
            note = "its columns are not those of the files before it: upsert it by itself"
            found, ranges = ImportFile(**(vars(found) | {"landed": None, "layout": None, "note": note})), []
        files.append(found)
        pieces += [(found.number, piece) for piece in ranges]
        # No file has more lines than bytes, so two files never share a line number.
        base += found.size or 0
    if not any(file.landed or file.duplicate for file in files):
        note_files(pool, job, files)
        raise InvalidInput("source", "; ".join(told(file, len(files)) for file in files[:5]))
    with transaction(pool) as connection:
        progress.begin(connection, job.job_id)
    note_files(pool, job, files)
    if upload:
        sent.remove_parts(upload, chosen)
    persist.add_items(pool, job.job_id, items(pieces), BatchSizer.within(BatchLimits()))
    with transaction(pool) as connection:
        jobs.seal(connection, job.job_id)


def note_files(pool: Engine, job: Job, files: list[ImportFile]) -> None:
    """Write down what became of each file, so that whoever deals with one of them need not know what is wrong with the
    others."""
    with transaction(pool) as connection:
        for file in files:
            progress.add_file(connection, job.job_id, file)


def noted_before(pool: Engine, job: Job, chosen: settings.Settings) -> dict[int, ImportFile]:
    """Return, by their numbers, the files as an earlier try noted them that was then cut short. They may have items
    already, so it does not matter what has become of their sources since. If every file was left out, there are no
    items; then return nothing, so that all files are tried again."""
    with transaction(pool) as connection:
        noted = progress.files(connection, job.job_id)
    if not any(file.landed or file.duplicate for file in noted):
        return {}
    return {file.number: file for file in noted if landing.is_there(file, chosen)}


def unlike(before: list[ImportFile], file: ImportFile) -> bool:
    """Tell whether this file has other columns than the files before it."""
    first = next((each.layout for each in before if each.layout is not None), None)
    if first is None or file.layout is None:
        return False
    return set(first.columns) != set(file.layout.columns)


def told(file: ImportFile, among: int) -> str:
    note = (file.note or "").removeprefix("source: ")
    return note if among == 1 else f"{file.source}: {note}"


def land(job: Job, request: ImportRequest, number: int, file: RequestedFile, chosen: settings.Settings) -> ImportFile:
    """Land a file: make the copy that everything else reads. If the file cannot be used, note why, so that the import
    goes on with the others."""
    shown = addresses.redacted(file.source)
    try:
        copy = landing.land(request, file, f"{job.job_key}/{number:06}", chosen)
    except BulkError as error:
        # A version that is gone never comes back: trying again would be useless, and taking another one wrong.
        gone = landing.gone(request, file, chosen) if isinstance(error, SourceChanged | Missing) else None
        if gone is None and isinstance(error, Unavailable):
            raise  # the trouble may pass, and the whole plan is tried again
        return ImportFile(number, shown, None, None, None, None, 0, duplicate=False, note=storable(gone or str(error)))
    if copy.sha256 in file.known_sha256:
        known = "this content was imported before"
        return ImportFile(number, shown, None, copy.bytes, copy.sha256, None, 0, duplicate=True, note=known)
    return ImportFile(number, shown, copy.url, copy.bytes, copy.sha256, None, 0, duplicate=False, note=None)


def land_sent(upload: Upload, request: ImportRequest, chosen: settings.Settings) -> ImportFile:
    """Return the file that was sent with the request. What came in one piece was landed while it arrived."""
    if upload.landed is not None:
        landed, size, sha256 = upload.landed, upload.landed_bytes, upload.sha256
    else:
        try:
            copy = sent.put_together(upload, request, chosen)
        except InvalidInput as error:
            note = storable(str(error))
            return ImportFile(1, upload.shown, None, None, None, None, 0, duplicate=False, note=note)
        landed, size, sha256 = copy.url, copy.bytes, copy.sha256
    return ImportFile(1, upload.shown, landed, size, sha256, None, 0, duplicate=False, note=None)


def examined(request: ImportRequest, file: ImportFile, base: int) -> tuple[ImportFile, list[Range]]:
    """Examine a landed file and cut it into ranges. Its lines are numbered on from those of the files before it."""
    if file.landed is None:
        return file, []
    try:
        with opened(file) as source:
            found = layout.inspect(
                source, request.declared, request.format, certain=request.files[file.number - 1].format
            )
            if request.mode is Mode.UPSERT:
                matching_key(request.declared, request.match_on, found.columns)
            shifted = Layout(found.format, found.columns, found.start, found.first_line + base, found.header)
            ranges = cutting.cut(source, shifted, RANGE_BYTES)
    except InvalidInput as error:
        return ImportFile(**(vars(file) | {"landed": None, "note": storable(str(error))})), []
    return ImportFile(**(vars(file) | {"layout": shifted, "base_line": base})), ranges


def items(pieces: list[Piece]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Make items of the ranges. A large range is an item of its own; small ones share an item, so that many small files
    become few items."""
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
