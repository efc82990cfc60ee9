"""Removing files from the registry that are gone from the storage. Each pass looks for a bounded number of files.

A pass walks the registry by its key. With each batch it writes down how far it has come, so that the next pass goes on
there, whatever became of this one; at the registry's end the walk begins anew. Only a clear answer counts: a file is
gone when the storage says so and shows other files at that moment. A storage that cannot be reached, refuses, or is an
empty folder because nothing is mounted there, says nothing about its files.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg.rows import class_row
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.distribution.files import target
from bulk_pipelines.distribution.files.target import Target
from bulk_pipelines.errors import Failure, Permanent
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.errors import Missing

BATCH = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    index_key: str
    effective_date: date
    asof_indicator: str
    path: str
    generated_at: datetime


@dataclass(frozen=True, slots=True)
class Position:
    """How far the walk has come: the key of the last row that was looked at."""

    index_key: str = ""
    effective_date: date = date.min
    asof_indicator: str = ""


START = Position()


def prune_registry(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    """Remove rows for the daily retention. Return how many were removed or, in a dry run, would be removed."""
    if not chosen.registry_checks:
        return 0
    # The storage itself retries refusals that pass within seconds, because here no engine does it.
    with locations.folder(target.url_of(chosen), access_of(chosen), "BULK_DISTRIBUTION_URL") as storage:
        return forget(
            pool,
            Target(storage),
            most=chosen.registry_checks,
            concurrency=chosen.distribution_concurrency,
            dry_run=dry_run,
        )


def forget(pool: Engine, place: Target, *, most: int, concurrency: int = 16, dry_run: bool = False) -> int:
    """Look for up to `most` files, from where the last pass ended, and return how many rows were removed.

    If the storage cannot be looked at, that is a warning and no failure, because nothing waits for these rows to go.
    """
    forgotten, looked = 0, 0
    with transaction(pool) as connection:
        position = begun(connection)
    try:
        with ThreadPoolExecutor(concurrency, "look") as threads:
            while looked < most:
                size = min(BATCH, most - looked)
                with transaction(pool) as connection:
                    batch = following(connection, position, size)
                missed = list(threads.map(lambda each: is_missing(place, each), batch))
                gone = [each for each, missing in zip(batch, missed, strict=True) if missing]
                if gone and not shows_files(place):
                    log.warning("the storage of the registered files is missing or empty: nothing is forgotten")
                    break
                looked += len(batch)
                over = len(batch) < size
                position = START if over else position_of(batch[-1])
                if dry_run:
                    forgotten += len(gone)
                else:
                    with transaction(pool) as connection:
                        forgotten += forget_rows(connection, gone)
                        write_down(connection, position)
                if over:
                    break
    except Failure as error:
        log.warning("registered files cannot be looked for now, %d were: %s", looked, error)
    return forgotten


def is_missing(place: Target, registered: Registered) -> bool:
    """Whether the storage says that the file is gone. A file of another target cannot be looked for here, and a file
    that the storage refuses to show may be there: neither counts as missing."""
    key = place.key_of(registered.path)
    if key is None:
        return False
    try:
        place.storage.stat(key)
    except Missing:
        return True
    except Permanent:
        pass
    return False


def shows_files(place: Target) -> bool:
    try:
        return next(iter(place.storage.entries()), None) is not None
    except Missing:
        return False


def begun(connection: Connection) -> Position:
    with connection.cursor(row_factory=class_row(Position)) as cursor:
        return cursor.execute(queries.text("distribution", "walk_position")).fetchone() or START


def following(connection: Connection, position: Position, size: int) -> list[Registered]:
    values = {**named(position), "most": size}
    with connection.cursor(row_factory=class_row(Registered)) as cursor:
        return cursor.execute(queries.text("distribution", "registered_after"), values).fetchall()


def forget_rows(connection: Connection, gone: Sequence[Registered]) -> int:
    if not gone:
        return 0
    values = {
        "index_keys": [each.index_key for each in gone],
        "effective_dates": [each.effective_date for each in gone],
        "asof_indicators": [each.asof_indicator for each in gone],
        "paths": [each.path for each in gone],
        "moments": [each.generated_at for each in gone],
    }
    return connection.execute(queries.text("distribution", "forget_artifacts"), values).rowcount


def write_down(connection: Connection, position: Position) -> None:
    if position == START:
        connection.execute(queries.text("distribution", "end_walk"))
    else:
        connection.execute(queries.text("distribution", "move_walk"), named(position))


def position_of(registered: Registered) -> Position:
    return Position(registered.index_key, registered.effective_date, registered.asof_indicator)


def named(position: Position) -> dict[str, Any]:
    return {
        "index_key": position.index_key,
        "effective_date": position.effective_date,
        "asof_indicator": position.asof_indicator,
    }
