"""The time to import a million rows from Parquet with two workers, against ADBC's ingest of the same file into a table
without constraints and `INSERT … SELECT` into the real one: fourteen mixed columns into a table that was never
declared, and users."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import adbc_driver_postgresql.dbapi
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from benchmarks import any_table, measure, user_files
from benchmarks.any_table import Orders
from benchmarks.import_scene import COLUMNS, Scene, scene
from bulk_pipelines.columns import uuids
from bulk_pipelines.database.pool import single

ROWS = 1_000_000
ROUNDS = 5
TYPES: dict[str, Any] = {
    "customer_id": pyarrow.int32(),
    "total": pyarrow.decimal128(12, 2),
    "ordered": pyarrow.date32(),
    "paid_at": pyarrow.timestamp("us", "UTC"),
    "gift": pyarrow.bool_(),
    "items": pyarrow.int32(),
}
SELECTED = (
    "id, customer_id, total, ordered, paid_at, status::shop.status, details::jsonb, note, gift, items, weight, code"
)


def orders(folder: Path, rows: int) -> Path:
    """Write the orders with their types, as pyarrow does it by default."""
    convert = pyarrow.csv.ConvertOptions(column_types=TYPES)
    table = pyarrow.csv.read_csv(any_table.write(folder / "orders.csv", rows, 0), convert_options=convert)
    tags: Any = pyarrow.array([["red", "dark blue"]] * rows)
    tokens = uuids.parse(table.column("token").combine_chunks())
    token: Any = pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), tokens)
    table = table.set_column(table.schema.get_field_index("token"), "token", token)
    table = table.set_column(table.schema.get_field_index("tags"), "tags", tags)
    path = folder / "orders.parquet"
    pyarrow.parquet.write_table(table, path)
    return path


def users(folder: Path, rows: int) -> Path:
    """Write the users as pandas and pyarrow do it by default."""
    table = pyarrow.csv.read_csv(user_files.write(folder / "users.csv", user_files.users(rows)))
    path = folder / "users.parquet"
    pyarrow.parquet.write_table(table, path)
    return path


def adbc(place: Scene, source: Path, empty: Callable[[], None], insert: str) -> float:
    empty()
    with single(place.url) as connection:
        connection.execute("DROP TABLE IF EXISTS ingested")
    begun = time.perf_counter()
    with adbc_driver_postgresql.dbapi.connect(place.url) as connection, connection.cursor() as cursor:
        file = pyarrow.parquet.ParquetFile(source)
        batches = pyarrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        cursor.adbc_ingest("ingested", batches, mode="create")
        connection.commit()
    with single(place.url) as connection:
        done = connection.execute(insert.encode(), prepare=False)
        seconds = time.perf_counter() - begun
        assert done.rowcount == file.metadata.num_rows
    return seconds


def main(rows: int = ROWS, rounds: int = ROUNDS) -> None:
    with scene() as place:
        any_orders = Orders(place)
        source = orders(place.folder, rows)
        insert = f"INSERT INTO shop.orders SELECT {SELECTED}, token, tags FROM ingested"
        sides = [partial(adbc, place, source, any_orders.empty, insert), partial(any_orders.ours, source, 2)]
        peer, ours = measure.in_turns(sides, rounds)
        source = users(place.folder, rows)
        insert = f"INSERT INTO users ({COLUMNS}) SELECT {COLUMNS.replace('id,', 'id::uuid,')} FROM ingested"
        sides = [partial(adbc, place, source, place.empty, insert), partial(place.ours, source, rows, 2)]
        peer_users, our_users = measure.in_turns(sides, rounds)
    measure.show("ADBC and INSERT … SELECT", peer, "s")
    measure.show("ours, two workers", ours, "s")
    measure.show("users: ADBC and INSERT … SELECT", peer_users, "s")
    measure.show("users: ours, two workers", our_users, "s")
    measure.report("parquet-in", median(ours), median(peer), "s")
    measure.report("parquet-in-users", median(our_users), median(peer_users), "s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
