"""The time to import a million users from Parquet with two workers, against ADBC's ingest of the same file into a table
without constraints and `INSERT … SELECT` into the real one."""

import time
from functools import partial
from pathlib import Path
from statistics import median

import adbc_driver_postgresql.dbapi
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from benchmarks import measure, user_files
from benchmarks.import_scene import COLUMNS, Scene, scene
from bulk_pipelines.database.pool import single

ROWS = 1_000_000
ROUNDS = 5
SELECTED = COLUMNS.replace("id,", "id::uuid,")


def parquet(folder: Path) -> Path:
    """Write the users as pandas and pyarrow do it by default."""
    table = pyarrow.csv.read_csv(user_files.write(folder / "users.csv", user_files.users(ROWS)))
    path = folder / "users.parquet"
    pyarrow.parquet.write_table(table, path)
    return path


def adbc(place: Scene, source: Path) -> float:
    place.empty()
    with single(place.url) as connection:
        connection.execute("DROP TABLE IF EXISTS ingested")
    begun = time.perf_counter()
    with adbc_driver_postgresql.dbapi.connect(place.url) as connection, connection.cursor() as cursor:
        file = pyarrow.parquet.ParquetFile(source)
        batches = pyarrow.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        cursor.adbc_ingest("ingested", batches, mode="create")
        connection.commit()
    with single(place.url) as connection:
        connection.execute(f"INSERT INTO users ({COLUMNS}) SELECT {SELECTED} FROM ingested")
    seconds = time.perf_counter() - begun
    place.check(ROWS)
    return seconds


def main() -> None:
    with scene() as place:
        source = parquet(place.folder)
        sides = [partial(adbc, place, source), partial(place.ours, source, ROWS, 2)]
        peer, ours = measure.in_turns(sides, ROUNDS)
    measure.show("ADBC and INSERT … SELECT", peer, "s")
    measure.show("ours, two workers", ours, "s")
    measure.report("parquet-in", median(ours), median(peer), "s")


if __name__ == "__main__":
    main()
