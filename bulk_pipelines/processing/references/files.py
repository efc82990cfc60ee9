"""Files that serve as references. A file is loaded into the database once for each of its versions, so that all
workers, wherever they run, match with the same rows."""

from collections.abc import Iterator

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.intake import records
from bulk_pipelines.processing.intake.rows import UNREADABLE, Records, Row
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.references.declaration import Reference
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import compression, locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Reader
from bulk_pipelines.storage.landing import headed

ENTRY_ID = "bulk entry id"
"""The name of the column with an entry's id, beside the file's own columns."""


def loaded(connection: Connection, reference: Reference) -> tuple[int, list[str]] | None:
    """Return the number under which a file is loaded, and its columns."""
    row = connection.execute(queries.text("references", "loaded_file"), key_of(reference)).fetchone()
    return None if row is None else (row[0], row[1])


def load(pool: Engine, reference: Reference, chosen: Settings) -> None:
    """Load a file, unless its present version is loaded. Others see the whole new version, or the old one."""
    with locations.Sources(access_of(chosen)) as sources:
        place, key = sources.source(reference.file, "reference")
        with place.open(key) as reader, transaction(pool) as connection:
            connection.execute(queries.text("references", "load_one_at_a_time"), key_of(reference))
            values = key_of(reference) | {"version": f"{reader.entry.version} {reader.entry.size}"}
            if connection.execute(queries.text("references", "use_file"), values).rowcount:
                return
            copy(connection, reference, reader, place.url_of(key), values["version"])


def load_missing(pool: Engine, reference: Reference, chosen: Settings) -> None:
    """Load a file if no version of it is loaded. Workers may run where the file cannot be read."""
    with transaction(pool) as connection:
        known = loaded(connection, reference)
    if known is None:
        load(pool, reference, chosen)


def copy(connection: Connection, reference: Reference, reader: Reader, url: str, version: str) -> None:
    head, pieces = headed(iter(reader))
    rows = records.opened(compression.unpacked(pieces, compression.decided(head, None, url), url))
    values = key_of(reference) | {"version": version, "columns": list(rows.columns)}
    connection.execute(queries.text("references", "forget_version"), values)
    row = connection.execute(queries.text("references", "new_file"), values).fetchone()
    assert row is not None, "an insert returns its row"
    with connection.cursor() as cursor, cursor.copy(queries.text("references", "copy_rows")) as copied:
        for number, entry_id, each in entries(reference, rows):
            encoded = payload.encode(f"record {number}", each)
            copied.write_row((row[0], number, payload.text(f"record {number}", entry_id), encoded))


def entries(reference: Reference, rows: Records) -> Iterator[tuple[int, str, Row]]:
    """Yield the rows that have an id, each with its number. A file with an unreadable record is refused, because the
    entry of that record could never be found."""
    for number, row in enumerate(rows, 1):
        if UNREADABLE in row:
            raise InvalidInput("reference", f"{reference.name}: record {number} cannot be read: {row[UNREADABLE]}")
        entry_id = templates.text_of(row.get(reference.columns.id))
        if entry_id:
            yield number, entry_id, row


def key_of(reference: Reference) -> dict[str, str]:
    return {"source": reference.file, "id_column": reference.columns.id}
