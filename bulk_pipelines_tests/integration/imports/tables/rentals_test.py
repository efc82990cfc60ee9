"""A whole database of somebody else, from its first table to its last export: every table is adopted, gets a file as
partners send it, is exported in every format, emptied, and loaded again from its own exports."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines import resources, settings
from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.exports import streaming
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines.resources import adoption
from bulk_pipelines_tests.scenes import rentals
from bulk_pipelines_tests.scenes.rentals import Sent
from bulk_pipelines_tests.scenes.whole_imports import begun, submitted, worked

PLACE = "Rental Shop"


@pytest.fixture
def shop(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BULK_RESOURCES", str(tmp_path / "resources"))
    monkeypatch.setattr("bulk_pipelines.imports.plan.planning.RANGE_BYTES", 400)
    with transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(rentals.SCHEMA.encode(), prepare=False)
    return engine


def loaded(engine: Engine, name: str, path: Path, **options: Any) -> Job:
    reading = Reading.of(options)
    job = worked(engine, begun(engine, submitted(engine, name, [path], reading=reading)), known_kinds())
    assert job.status == "COMPLETED", (name, job.last_error, job.result)
    return job


def stored(engine: Engine, table: str) -> list[Any]:
    query = sql.SQL("SELECT to_jsonb(t) - 'found' - 'seen' FROM {} t").format(sql.Identifier(PLACE, table))
    with transaction(engine) as connection:
        return sorted((row[0] for row in connection.execute(query)), key=str)


@pytest.mark.long
def test_from_the_first_table_to_the_last_export(shop: Engine, tmp_path: Path) -> None:
    sent = rentals.everything()
    with transaction(shop) as connection:
        for each in sent:
            adoption.adopt(
                connection,
                settings.current(),
                f'"{PLACE}".{each.table}',
                None,
                provenance=each.table in {"film", "payment"},
                again=False,
            )
    assert {each.name for each in resources.known()} >= {each.table for each in sent}
    for each in sent:
        path = tmp_path / f"{each.table}.file"
        path.write_bytes(each.write(pd.DataFrame(each.rows, dtype=object)))
        job = loaded(shop, each.table, path, **each.options)
        assert job.result is not None
        assert job.result["loaded"] == len(each.rows)
    check_values(shop)
    before = {each.table: stored(shop, each.table) for each in sent}
    for format_ in (Format.CSV, Format.NDJSON, Format.JSON, Format.PARQUET, Format.XLSX):
        files = {each.table: exported(shop, each, format_, tmp_path) for each in sent}
        with transaction(shop) as connection:
            tables = sql.SQL(", ").join(sql.Identifier(PLACE, each.table) for each in sent)
            connection.execute(sql.SQL("TRUNCATE {}").format(tables))
        for table, path in files.items():
            loaded(shop, table, path)
            assert without_origin(stored(shop, table)) == without_origin(before[table]), (format_, table)


def without_origin(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.startswith("import_")} for row in rows]


def exported(engine: Engine, sent: Sent, format_: Format, folder: Path) -> Path:
    """Export a table, and see that what reads such files elsewhere finds as many rows in it."""
    request = ExportRequest(sent.table, format_)
    data = b"".join(streaming.stream(engine, request))
    path = folder / f"{sent.table}.{format_}"
    path.write_bytes(data)
    read: Any = {
        Format.CSV: pd.read_csv,
        Format.NDJSON: lambda file: pd.read_json(file, lines=True),
        Format.JSON: pd.read_json,
        Format.PARQUET: pd.read_parquet,
        Format.XLSX: pd.read_excel,
    }[format_]
    frame = read(io.BytesIO(data))
    assert (len(frame), list(frame.columns)) == (len(sent.rows), list(request.declared.column_names))
    return path


def check_values(engine: Engine) -> None:
    """Look at some values in words of one's own."""
    with transaction(engine) as connection:
        connection.execute(sql.SQL("SET LOCAL search_path = {}, public").format(sql.Identifier(PLACE)))
        found = {
            question: connection.execute(question.encode()).fetchone()
            for question in (
                "SELECT name, founded::text, area, elevation, network::text FROM city WHERE id = 7",
                "SELECT title, year, rating::text, features, rate, lasts::text, encode(poster, 'hex'), data"
                + " FROM film WHERE id = '00000007-0000-4000-8000-000000000000'",
                'SELECT "First Name", "Last.Name 🍕" FROM actor WHERE id = 7',
                "SELECT count(*) FROM staff AS s JOIN staff AS b ON b.id = s.boss_id",
                "SELECT at::text, day::text FROM rental_2026 WHERE id = 1",
                "SELECT paid_at::text, amount, host::text FROM payment ORDER BY 1 LIMIT 1",
            )
        }
    assert list(found.values()) == [
        ("São Ville 7", "1807-01-07", pytest.approx(7.875), 7.5, "10.7.0.0/16"),
        ('Film "7"; the end', 1997, "PG-13", ["a b", None], Decimal("7.99"), "01:07:00", "07ff", {"n": 7}),
        ("Zoë 7", "O'Neil\tJr"),
        (rentals.COUNT - 1,),
        ("24:00:00", "2026-03-02"),
        ("2026-01-01 12:01:00", 0.1, "192.168.0.1/32"),
    ]
