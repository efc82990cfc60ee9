"""Taking files again whose import failed: they are put back to where they were, and watched anew."""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Engine

from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.drops import ledger
from bulk_pipelines.drops.sources import FIELD, DropSource
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.errors import Conflict, NotFound
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing


class Dropped(NamedTuple):
    """The last version of a file that the ledger knows."""

    drop_id: int
    source: str
    path: str
    version: str
    status: str
    job_key: str | None
    taken_up_again: bool
    """Whether the file's import failed and was redriven since."""


def retry(
    pool: Engine,
    sources: Mapping[str, DropSource],
    access: Access,
    path: str,
    source: str | None,
    by: Actor | None = None,
) -> Dropped:
    """Put a failed file back, so that the next look at its source takes it. After this was cut short, it can be done
    again with the same result."""
    with transaction(pool) as connection:
        file = failed(connection, path, source)
    if file.source not in sources:
        raise Conflict(f"the source {file.source!r} is not configured any more: {FIELD}")
    place = sources[file.source]
    with locations.folder(place.where, access, FIELD) as storage:
        put_back(storage, place, file)
    with transaction(pool) as connection:
        if connection.execute(ledger.text("watch_again"), {"drop_id": file.drop_id}).fetchone() is None:
            raise Conflict(f"{path} has changed its state meanwhile: look at `bulk drops list`")
        if by is not None:
            audit.note_other(connection, by, "retry drop", file.source, path=file.path)
    return file


def failed(connection: Connection, path: str, source: str | None) -> Dropped:
    found = connection.execute(ledger.text("failed_drop"), {"path": path, "source": source}).fetchall()
    files = [Dropped._make(row) for row in found]
    if not files:
        raise NotFound(f"the ledger knows no file {path}" + (f" of the source {source}" if source else ""))
    broken = [file for file in files if file.status == "FAILED"]
    if len(broken) > 1:
        raise Conflict(f"{path} failed in several sources, name one: {', '.join(file.source for file in broken)}")
    if not broken:
        raise Conflict(f"{path} is {', '.join(file.status for file in files)}: only a file that failed is taken again")
    if broken[0].taken_up_again:
        raise Conflict(f"{path} failed, but its import {broken[0].job_key} was taken up again: see what comes of that")
    return broken[0]


def put_back(storage: Storage, place: DropSource, file: Dropped) -> None:
    """Move a file from the folder of failed files to where it was dropped, unless it still lies there."""
    aside = f"{place.failed_folder}/{file.job_key}" if place.failed_folder and file.job_key else None
    try:
        there = storage.stat(file.path).version
    except Missing:
        there = None
    if there not in (None, file.version):
        raise Conflict(f"another version of {file.path} lies there now: it is taken by itself")
    if there is None:
        if aside is None:
            raise NotFound(f"{file.path} is not where it was: drop it again")
        try:
            if not storage.move_new(f"{aside}/{file.path}", file.path):
                raise Conflict(f"another version of {file.path} lies there now: it is taken by itself")
        except Missing:
            raise NotFound(f"{file.path} is neither where it was nor in {aside}: drop it again") from None
    if place.marker:
        mark(storage, f"{file.path}{place.marker}", aside)


def mark(storage: Storage, marker: str, aside: str | None) -> None:
    """Write the marker of a file anew after the file was put back, because a marker must not be older than its file."""
    content = b""
    for old in (f"{aside}/{marker}", marker) if aside else (marker,):
        with suppress(Missing):
            content = storage.read(old)
            break
    storage.put(marker, content)
    if aside:
        storage.delete(f"{aside}/{marker}")
