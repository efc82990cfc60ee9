"""Planning an import, from sources to items: each file is landed, examined, and cut into ranges. Planning it again
comes to the same items."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchSizer
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.engine.outcomes import storable
from bulk_pipelines.errors import BulkError, InvalidInput
from bulk_pipelines.formats.files import expressions
from bulk_pipelines.formats.reading import FileFormat
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.context import Mode, matching_key
from bulk_pipelines.imports.plan import agreement
from bulk_pipelines.imports.plan.cut import ranges as cutting
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.plan.land.landing import NOT_THE_FILES, Landing, opened
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.imports.sent import planning as sent
from bulk_pipelines.imports.sent.uploads import Upload
from bulk_pipelines.storage.errors import Full, Missing, SourceChanged

log = logging.getLogger(__name__)

RANGE_BYTES = 5 * 1024 * 1024
"""The most bytes of a range. A lane holds two blocks: the one that it writes, and the one that it reads ahead. Most
ranges are one block, so larger ranges would cost a lane more memory, and would not be quicker."""
FILES_AT_ONCE = 4
"""How many files of an import are landed side by side. It is also how many logins an FTP server sees."""

Piece = tuple[int, Range]


def plan(pool: Engine, job: Job) -> Job:
    """Plan the import, and return its job, all of whose items are known then."""
    request = ImportRequest.from_params(job.params)
    with transaction(pool) as connection:
        agreement.check(connection, request.declared, request.mode)
    chosen = settings.current()
    upload = sent.upload_of(pool, job)
    copies = brought_in(pool, job, request, upload, chosen)
    files, pieces = cut_up(pool, request, in_order(copies))
    if not any(file.landed or file.duplicate for file in files):
        note_files(pool, job, files)
        opened = {file.archive for file in files}
        unusable = [file for file in files if file.number not in opened]  # an archive's note repeats those of its files
        raise InvalidInput("source", "; ".join(told(file, len(files)) for file in unusable[:5]))
    with transaction(pool) as connection:
        progress.begin(connection, job.job_id)
        check_rights(connection, request, files)
    note_files(pool, job, files)
    if upload is not None:
        sent.remove_parts(upload, chosen)
    persist.add_items(pool, job.job_id, items(pieces), BatchSizer.within(limits_of(chosen.engine).ingest))
    with transaction(pool) as connection:
        return jobs.seal(connection, job.job_id)


def brought_in(
    pool: Engine, job: Job, request: ImportRequest, upload: Upload | None, chosen: settings.Settings
) -> list[ImportFile]:
    """Return the files of the import, landed in a form that records can be read from."""
    files = left_to_land(pool, job, chosen)
    if upload is None:
        return landed(job.job_key, request, files, chosen)
    there = [file if file.dealt_with else land_sent(upload, file, request, chosen) for file in files]
    with landing.begun(request, chosen) as lands, leaving_room(lands, job.job_key, files, upload):
        return [each for file in there for each in converted(job.job_key, lands, file, sent=True)]


def cut_up(pool: Engine, request: ImportRequest, copies: Sequence[ImportFile]) -> tuple[list[ImportFile], list[Piece]]:
    """Examine landed files and cut them into ranges. Return the files with what was found out, and the ranges of all of
    them in order."""
    files: list[ImportFile] = []
    pieces: list[Piece] = []
    formats = frozenset[FileFormat]()
    base = 0
    for file in copies:
        found, ranges, looks_like = examined(pool, request, file, base)
        formats |= looks_like
        if (request.mode is Mode.UPSERT or not request.declared.built_in) and unlike(files, found):
            # An upsert is decided for all files together, and the records of an import that wait are kept together, so
            # all files must have the same columns.
            note = f"its columns are not those of the files before it: {request.verb} it by itself"
            found, ranges = replace(found, landed=None, landed_version=None, layout=None, note=note), []
        files.append(found)
        pieces += [(found.number, piece) for piece in ranges]
        # No file has more lines than bytes, so two files never share a line number. An archive has none of its own.
        base += 0 if file.is_opened else found.size or 0
    # Options of a rule for files that are dropped, or of a first import, may be meant for others of its files.
    if formats and request.replay_of is None and not any(file.requested.version for file in copies):
        request.reading.refuse_idle(formats)
    return [archive_of(file, files) for file in files], pieces


def check_rights(connection: Connection, request: ImportRequest, files: list[ImportFile]) -> None:
    """Raise `InvalidInput` if this role may not write a column that a file has."""
    if not request.declared.built_in:
        named = {name for file in files if file.layout is not None for name in file.layout.columns}
        agreement.check_columns(connection, request.declared.narrowed(named), request.mode)


def landed(
    job_key: str, request: ImportRequest, files: Sequence[ImportFile], chosen: settings.Settings
) -> list[ImportFile]:
    """Land those files of an import that were not dealt with before, and return all of them in their order. Some are
    landed at once, and all by the same few connections, so that a server sees few logins."""
    with (
        landing.begun(request, chosen) as lands,
        leaving_room(lands, job_key, files),
        ThreadPoolExecutor(FILES_AT_ONCE, "landing") as executor,
    ):
        found = executor.map(lambda file: [file] if file.dealt_with else land(job_key, lands, file), files)
        return [each for several in found for each in several]


@contextmanager
def leaving_room(
    lands: Landing, job_key: str, files: Sequence[ImportFile], upload: Upload | None = None
) -> Iterator[None]:
    """When our disk is full, remove what was landed of these files: the next try lands them anew, and others need the
    room. What was sent stays, because it lies nowhere else."""
    try:
        yield
    except Full:
        if not any(file.dealt_with for file in files):
            landing.remove(lands.into, job_key, [] if upload is None else [upload.whole, *upload.parts])
        raise


def converted(job_key: str, lands: Landing, file: ImportFile, *, sent: bool = False) -> list[ImportFile]:
    """Convert a landed file, unless its records can be read as it is. If it cannot be used, note why."""
    if file.landed is None or file.layout is not None or file.requested.format is not None:
        return [file]
    try:
        found = lands.convert(file, f"{job_key}/{file.number:06}", sent=sent)
    except BulkError as error:
        if isinstance(error, NOT_THE_FILES):
            raise
        return [replace(file, landed=None, landed_version=None, note=storable(str(error)))]
    if len(found) == 1 and found[0].sha256 in file.requested.known_sha256:
        note = "this content was imported before"
        return [replace(found[0], landed=None, landed_version=None, duplicate=True, note=note)]
    return found


def in_order(files: list[ImportFile]) -> list[ImportFile]:
    """Number the files of archives behind all files that were asked for."""
    asked = [file for file in files if file.archive is None]
    members = [file for file in files if file.archive is not None]
    last = max(file.number for file in asked)
    return asked + [replace(file, number=last + place) for place, file in enumerate(members, 1)]


def archive_of(file: ImportFile, files: Sequence[ImportFile]) -> ImportFile:
    """Return an archive with a note that says which of its files cannot be used, and any other file as it is."""
    left_out = [f"{each.source}: {each.note}" for each in files if each.archive == file.number and each.left_out]
    return replace(file, note=storable("; ".join(left_out[:5]))) if left_out and file.archive is None else file


def note_files(pool: Engine, job: Job, files: list[ImportFile]) -> None:
    """Write down what became of each file, so that whoever deals with one of them need not know what is wrong with the
    others."""
    with transaction(pool) as connection:
        progress.note_files(connection, job.job_id, files)


def left_to_land(pool: Engine, job: Job, chosen: settings.Settings) -> list[ImportFile]:
    """Return the files of the import. Those that an earlier try dealt with before it was cut short stay as it noted
    them, if their copies are there: they may have items already, so it does not matter what has become of their sources
    since. If the try left every file out, there are no items; then all files are tried again."""
    with transaction(pool) as connection:
        files = progress.files(connection, job.job_id)
    if not any(file.landed or file.duplicate for file in files):
        return [as_submitted(file) for file in files if file.archive is None]
    there = {file.number for file in landing.still_there(files, chosen)}
    # An archive is opened again if any of its files is not there any more.
    anew = {file.archive for file in files if file.archive is not None and file.number not in there}
    kept = [file for file in files if file.archive is None or file.archive not in anew]
    return [file if file.number in there and file.number not in anew else as_submitted(file) for file in kept]


def as_submitted(file: ImportFile) -> ImportFile:
    return ImportFile(file.number, file.requested, file.source)


def unlike(before: list[ImportFile], file: ImportFile) -> bool:
    """Tell whether this file has other columns than the files before it."""
    first = next((each.layout for each in before if each.layout is not None), None)
    if first is None or file.layout is None:
        return False
    return set(first.columns) != set(file.layout.columns)


def told(file: ImportFile, among: int) -> str:
    note = (file.note or "").removeprefix("source: ")
    return note if among == 1 else f"{file.source}: {note}"


def land(job_key: str, lands: Landing, file: ImportFile) -> list[ImportFile]:
    """Land a file: make the copy that everything else reads. If the file cannot be used, note why, so that the import
    goes on with the others."""
    try:
        copy = lands.land(file.requested, f"{job_key}/{file.number:06}")
    except BulkError as error:
        # A version that is gone never comes back: trying again would be useless, and taking another one wrong.
        gone = lands.gone(file.requested) if isinstance(error, SourceChanged | Missing) else None
        if gone is None and isinstance(error, NOT_THE_FILES):
            raise
        return [replace(file, note=storable(gone or str(error)))]
    file = replace(file, size=copy.bytes, sha256=copy.sha256)
    if copy.sha256 in file.requested.known_sha256:
        return [replace(file, duplicate=True, note="this content was imported before")]
    return converted(job_key, lands, replace(file, landed=copy.url, landed_version=copy.version))


def land_sent(upload: Upload, file: ImportFile, request: ImportRequest, chosen: settings.Settings) -> ImportFile:
    """Note where the file lies that was sent with the request. What came in one piece was landed while it arrived; what
    came in parts is put together now."""
    if upload.landed is not None:
        return replace(
            file,
            landed=upload.landed,
            landed_version=upload.landed_version,
            size=upload.landed_bytes,
            sha256=upload.sha256,
        )
    try:
        copy = sent.put_together(upload, request.compression, chosen)
    except InvalidInput as error:
        return replace(file, note=storable(str(error)))
    return replace(file, landed=copy.url, landed_version=copy.version, size=copy.bytes, sha256=copy.sha256)


def examined(
    pool: Engine, request: ImportRequest, file: ImportFile, base: int
) -> tuple[ImportFile, list[Range], frozenset[FileFormat]]:
    """Examine a landed file and cut it into ranges; return also of which formats it can be. Its lines are numbered on
    from those of the files before it."""
    if file.landed is None:
        return file, [], frozenset()
    try:
        with opened(file) as source:
            certain = file.requested.layout or file.requested.format
            found = layout.inspect(source, request.declared, request.format, request.reading, certain=certain)
            if found.mapping is not None and found.mapping.expressions:
                names = found.mapping.fields or found.columns
                expressions.check(pool, names, found.mapping.expressions)
            if request.mode is Mode.UPSERT:
                matching_key(request.declared.narrowed(found.columns), request.match_on, found.columns)
            shifted = replace(found, first_line=found.first_line + base)
            ranges, formats = cutting.cut(source, shifted, RANGE_BYTES), layout.formats_of(source, found)
    except InvalidInput as error:
        return replace(file, landed=None, landed_version=None, note=storable(str(error))), [], frozenset()
    return replace(file, layout=shifted, base_line=base), ranges, formats


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
