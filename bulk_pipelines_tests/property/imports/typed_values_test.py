"""Values that have a type in their file come to what the same values in a CSV file come to: the same rows, and the same
rejects."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.formats import parquet_rows, rows
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources import reflection
from bulk_pipelines_tests.scenes.import_runs import finished
from bulk_pipelines_tests.scenes.today import examples
from bulk_pipelines_tests.scenes.typed_values import TYPED, Field, fields

JOBS = itertools.count(1)
TARGETS = sorted({target for typed in TYPED for target in typed.targets})
NAMES = {target: f"c{number}" for number, target in enumerate(TARGETS)}


@pytest.fixture
def table(engine: Engine) -> Engine:
    columns = ", ".join(f"{name} {target}" for target, name in NAMES.items())
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(f"CREATE TABLE kinds (id integer PRIMARY KEY, {columns})".encode())
    return engine


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_typed_value_comes_to_what_its_text_comes_to(table: Engine, format_: str, data: st.DataObject) -> None:
    drawn = data.draw(fields(parquet=format_ == "parquet"))
    mode = data.draw(st.sampled_from([Mode.INSERT, Mode.UPSERT]))
    with tempfile.TemporaryDirectory() as folder:
        lines = [number for number, *_ in records(drawn)]
        typed = outcome(table, as_rows(drawn, Path(folder), format_), lines, mode)
        text = outcome(table, *as_csv(drawn, Path(folder)), mode)
    told = {number: (field.target, str(field.typed.kind), value) for number, field, value in records(drawn)}
    for number, what in told.items():
        assert typed[number] == text[number], what


def records(drawn: list[Field]) -> list[tuple[int, Field, Any]]:
    """Return a record for each value: it has no other."""
    return [(number, *each) for number, each in enumerate(((f, value) for f in drawn for value in f.values), 1)]


def as_rows(drawn: list[Field], folder: Path, format_: str) -> Path:
    """Write the file, and land it."""
    count = sum(len(field.values) for field in drawn)
    columns: dict[str, Any] = {"id": pa.array(range(1, count + 1), pa.int32())}
    before = 0
    for field in drawn:
        behind = count - before - len(field.values)
        columns[NAMES[field.target]] = field.typed.column([None] * before + field.values + [None] * behind)
        before += len(field.values)
    made = pa.table(columns)
    path = folder / "typed"
    if format_ == "parquet":
        pyarrow.parquet.write_table(made, path, version="2.6", coerce_timestamps=None)
    else:
        with pa.ipc.new_file(str(path), made.schema) as writer:
            writer.write_table(made)
    target = folder / "typed.rows"
    with path.open("rb") as file:
        read = parquet_rows.parquet if format_ == "parquet" else parquet_rows.arrow
        target.write_bytes(b"".join(rows.written(*read(file, 200.0))))
    return target


def as_csv(drawn: list[Field], folder: Path) -> tuple[Path, list[int]]:
    """Write the file. Return also the line of each record."""
    written = ",".join(["id", *(NAMES[field.target] for field in drawn)]) + "\n"
    lines = []
    for number, field, value in records(drawn):
        lines.append(1 + written.count("\n"))
        text = field.typed.text(value, field.target).replace('"', '""')
        written += ",".join([str(number), *(f'"{text}"' if each is field else "" for each in drawn)]) + "\n"
    path = folder / "text.csv"
    path.write_text(written, newline="")
    return path, lines


def outcome(engine: Engine, path: Path, lines: list[int], mode: Mode) -> dict[int, Any]:
    """Import the file, whose records begin on these lines. Return for each record its row as texts, or the codes and
    fields of its reasons."""
    with pool.transaction(engine) as connection:
        connection.execute("TRUNCATE kinds")
        declared = reflection.reflect(connection, "kinds")
    run = finished(engine, path, declared, mode, job_id=next(JOBS))
    found: dict[int, Any] = {
        lines.index(line) + 1: [(reason["code"], reason.get("field")) for reason in reasons]
        for line, _, reasons in run.rejected()
    }
    query = sql.SQL("SELECT id, {} FROM kinds").format(
        sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in NAMES.values())
    )
    with pool.transaction(engine) as connection:
        return found | {row[0]: row[1:] for row in connection.execute(query)}
