"""The time of exports of users, against what people use for them: psql, ADBC with pyarrow, pandas. `make bench-export`.

CSV, NDJSON and Parquet files hold 1,000,000 users; XLSX files hold 200,000, since pandas takes minutes for a million.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from sqlalchemy import Engine

from benchmarks.export_scene import alternating, seconds, users
from benchmarks.measure import report
from bulk_pipelines.database.embedded import binaries
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.read.batches import connected
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.resources.users import USERS
from bulk_pipelines.storage.local.storage import LocalStorage

ROWS, SHEET_ROWS, ROUNDS = 1_000_000, 200_000, 7
SELECT = f"SELECT {', '.join(USERS.column_names)} FROM users"


def ours(engine: Engine, folder: Path, format_: Format, rows: int) -> Callable[[], None]:
    request, storage = ExportRequest("users", format_), LocalStorage(folder)

    def work() -> None:
        assert write(engine, request, storage, f"ours{request.suffix}").rows == rows

    return work


def psql(engine: Engine, folder: Path) -> Callable[[], None]:
    copy = f"\\copy ({SELECT}) TO '{folder / 'psql.csv'}' WITH (FORMAT csv, HEADER)"
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)

    def work() -> None:
        subprocess.run([binaries.embedded() / "psql", "-X", "-q", url, "-c", copy], check=True)

    return work


def adbc_and_pyarrow(engine: Engine, folder: Path) -> Callable[[], None]:
    def work() -> None:
        with connected(engine.url) as connection, connection.cursor() as cursor:
            cursor.execute(SELECT)
            batches = cursor.fetch_record_batch()
            with pq.ParquetWriter(folder / "adbc.parquet", batches.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)

    return work


def pandas(engine: Engine, folder: Path, library: str) -> Callable[[], None]:
    def work() -> None:
        frame = pd.read_sql_query(SELECT, engine)
        frame["id"] = frame["id"].astype(str)
        for column in ("created_at", "updated_at"):
            frame[column] = frame[column].dt.tz_localize(None)
        frame.to_excel(folder / "pandas.xlsx", index=False, engine=library)

    return work


def main() -> None:
    with users(ROWS) as (engine, folder):
        took = alternating(
            ROUNDS,
            {
                "psql": psql(engine, folder),
                "csv": ours(engine, folder, Format.CSV, ROWS),
                "ndjson": ours(engine, folder, Format.NDJSON, ROWS),
                "adbc": adbc_and_pyarrow(engine, folder),
                "parquet": ours(engine, folder, Format.PARQUET, ROWS),
            },
        )
    report("export-csv", took["csv"], took["psql"], "s")
    report("export-ndjson", took["ndjson"], took["psql"], "s")
    report("export-parquet", took["parquet"], took["adbc"], "s")
    with users(SHEET_ROWS) as (engine, folder):
        libraries = {name: pandas(engine, folder, name) for name in ("openpyxl", "xlsxwriter")}
        quicker = min(libraries, key=lambda name: seconds(libraries[name]))
        work = {"xlsx": ours(engine, folder, Format.XLSX, SHEET_ROWS), quicker: libraries[quicker]}
        took = alternating(5, work)
    report("export-xlsx", took["xlsx"], took[quicker], "s")


if __name__ == "__main__":
    main()
