"""Whatever table somebody has made, an import does what a plain INSERT or UPDATE of each record would do, and what is
exported imports again to the identical table."""

import csv
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet
import psycopg
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.context import matching_key
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.resources import reflection
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes import drawn_oracle, drawn_tables
from bulk_pipelines_tests.scenes.drawn_oracle import Oracle, Outcome, stored
from bulk_pipelines_tests.scenes.drawn_tables import Drawn
from bulk_pipelines_tests.scenes.today import SEED
from bulk_pipelines_tests.scenes.whole_imports import imported

JSONS = {"json", "jsonb"}


def as_csv(table: Drawn, path: Path) -> None:
    def field(text: str | None) -> str:
        return "" if text is None else '"' + text.replace('"', '""') + '"'

    lines = [",".join(map(field, table.given))]
    lines += [",".join(field(record[name]) for name in table.given) for record in table.records]
    if len(table.given) == 1:
        lines = [line or '""' for line in lines]
    path.write_text("".join(line + "\n" for line in lines), newline="")


def json_of(table: Drawn, record: dict[str, str | None]) -> str:
    def value(name: str) -> str:
        text = record[name]
        return text if text is not None and table.kinds[name] in JSONS else json.dumps(text)

    is_first = record is table.records[0]
    names = [name for name in table.given if is_first or record[name] is not None or len(name) % 3]
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=len(name) % 2 == 0)}: {value(name)}" for name in names) + "}"


def as_ndjson(table: Drawn, path: Path) -> None:
    path.write_text("".join(json_of(table, record) + "\n" for record in table.records))


def as_json(table: Drawn, path: Path) -> None:
    path.write_text("[" + ",\n".join(json_of(table, record) for record in table.records) + "]")


def as_parquet(table: Drawn, path: Path) -> None:
    columns = {name: pa.array([record[name] for record in table.records], pa.string()) for name in table.given}
    pyarrow.parquet.write_table(pa.table(columns), path)


def as_xlsx(table: Drawn, path: Path) -> None:
    book = openpyxl.Workbook()
    for column, name in enumerate(table.given, 1):
        for row, text in enumerate([name, *(record[name] for record in table.records)], 1):
            if text is not None:
                cell = book.active.cell(row, column)
                cell.value, cell.data_type = text, "s"
    book.save(path)


WRITERS: dict[str, Any] = {"csv": as_csv, "ndjson": as_ndjson, "json": as_json, "parquet": as_parquet, "xlsx": as_xlsx}
ONE_BY_ONE = ("NULLS NOT DISTINCT", "CREATE UNIQUE INDEX", "EXCLUDE", "INHERITS")
"""Constraints by which records exclude each other, and that no declaration knows."""


def prepare(engine: Engine, table: Drawn) -> Resource:
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(table.ddl.encode(), prepare=False)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for record in table.before:
            drawn_oracle.tries(connection, *drawn_oracle.insert(drawn_oracle.place_of(table), record, list(table.kinds)))
    with pool.transaction(engine) as connection:
        declared = reflection.reflect(connection, table.place)
    table.given += [
        column.name for column in declared.columns if column.needed_in_files and column.name not in table.given
    ]
    return declared


def leave_out(table: Drawn, declared: Resource, chance: Any) -> None:
    """Let records of JSON lack columns: all that have no default are columns of the file, whether a record has them."""
    for column in declared.columns:
        if column.name not in table.given and not column.has_default:
            table.given.append(column.name)
            for record in table.records:
                record[column.name] = None


def expected(engine: Engine, table: Drawn, declared: Resource, mode: str) -> Outcome:
    """Ask the oracle, and undo what it did."""
    narrowed = declared.narrowed(table.given)
    with psycopg.connect(engine.url.set(drivername="postgresql").render_as_string(hide_password=False)) as connection:
        oracle = Oracle(connection, table, narrowed)
        found = oracle.insert() if mode == "insert" else oracle.upsert(matching_key(narrowed, None, tuple(table.given)))
        connection.rollback()
    return found


def is_exact(table: Drawn, declared: Resource) -> bool:
    """Whether the file and the table alone decide which records are loaded."""
    keys = declared.narrowed(table.given).keys == declared.keys
    return keys and not any(word in table.ddl for word in ONE_BY_ONE)


def check(engine: Engine, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = drawn_tables.drawn(seed)
    chance = drawn_tables.random.Random(seed)
    declared = prepare(engine, table)
    format_ = chance.choice(list(WRITERS))
    if format_ == "xlsx":
        for record in table.records:
            for name, value in record.items():
                record[name] = value or None
    if format_ in {"ndjson", "json"}:
        leave_out(table, declared, chance)
    mode = chance.choice(["insert", "upsert"]) if declared.narrowed(table.given).keys else "insert"
    if format_ in ("xlsx", "csv"):
        table.records = [r for r in table.records if any(r[name] is not None for name in table.given)]
    monkeypatch.setattr(planning, "RANGE_BYTES", chance.choice([100, 100_000]))
    wanted = expected(engine, table, declared, mode)
    with pool.transaction(engine) as connection:
        before = stored(connection, table)
    about = f"seed {seed} {format_} {mode}\n{table.ddl}\n{table.given}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"records.{format_}"
        WRITERS[format_](table, path)
        job = imported(engine, declared.name, path, declaration=declared, mode=mode)
    content = "\n".join(f"{n}: " + repr([r[name] for name in table.given]) for n, r in enumerate(table.records, 1))
    with pool.transaction(engine) as connection:
        found = list(rejects.every(connection, job.job_id))
        rows = stored(connection, table)
    about += f"{content}\nbefore {before}\n{job.status} {job.last_error}\n"
    lines = lines_of(table, format_)
    reasons = {lines.index(each.line) + 1: each.reasons for each in found}
    if is_exact(table, declared):
        assert {line: reasons.get(line) for line in reasons.keys() ^ wanted.rejected.keys()} == {}, (
            about + f"\nreasons {reasons}\nwanted {wanted.rejected}"
        )
        assert rows == wanted.rows, about
    else:
        assert {l for l, s in wanted.rejected.items() if s.startswith("duplicate of")} <= reasons.keys() , about + f"\nreasons {reasons}\nwanted {wanted.rejected}"
        if mode == "insert":
            assert len(rows) == len(before) + len(table.records) - len(reasons), about + f"{reasons}"
            check_most(engine, table, reasons, wanted, about)
    again(engine, table, declared, chance, about)


def check_most(engine: Engine, table: Drawn, reasons: Any, wanted: Outcome, about: str) -> None:
    """See that the table still refuses what it refused."""
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for line in reasons:
            if wanted.rejected.get(line, "").startswith("duplicate of") or any(each["code"] == "duplicate_key" for each in reasons[line]):
                continue
            said = drawn_oracle.tries(connection, *drawn_oracle.insert(drawn_oracle.place_of(table), table.records[line - 1], table.given))
            assert isinstance(said, str) or said == 0, about + f"\n{line} {reasons[line]}"


def lines_of(table: Drawn, format_: str) -> list[int]:
    """Return the line, or the number, of each record."""
    lines, line = [], {"csv": 2, "xlsx": 2}.get(format_, 1)
    for record in table.records:
        lines.append(line)
        line += 1 + (sum((record[name] or "").count("\n") for name in table.given) if format_ == "csv" else 0)
    return lines


def again(engine: Engine, table: Drawn, declared: Resource, chance: Any, about: str) -> None:
    with pool.transaction(engine) as connection:
        before = stored(connection, table)
    if not before:
        return
    format_ = chance.choice([Format.CSV, Format.NDJSON, Format.JSON, Format.PARQUET])
    request = ExportRequest(declared.name, format_, declaration=declared)
    with tempfile.TemporaryDirectory() as folder:
        try:
            write(engine, request, LocalStorage(Path(folder)), f"again{request.suffix}")
        except InvalidInput as error:
            assert "infinity" in str(error), about + f"\n{error}"
            return
        path = Path(folder) / f"again{request.suffix}"
        with pool.transaction(engine) as connection:
            connection.execute(f"DELETE FROM {table.place}".encode())
        job = imported(engine, declared.name, path, declaration=declared)
    content = "\n".join(f"{n}: " + repr([r[name] for name in table.given]) for n, r in enumerate(table.records, 1))
    with pool.transaction(engine) as connection:
        found = list(rejects.every(connection, job.job_id))
        assert not found, about + f"\n again {format_} {content} {[each.reasons for each in found]}"
        assert stored(connection, table) == before, about + f"\nagain {format_} {content} {job.status} {job.last_error}"


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_drawn_table(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(drawn_tables.PREPARED.encode(), prepare=False)
    first, count = int(os.environ.get("FIRST", SEED)), int(os.environ.get("COUNT", "40"))
    failed = []
    for seed in range(first, first + count):
        try:
            check(engine, seed, monkeypatch)
        except (AssertionError, psycopg.Error, InvalidInput, Exception) as error:
            failed.append(f"##### seed {seed} {type(error).__name__}: {str(error)[:5000]}")
        with pool.transaction(engine) as connection:
            place = drawn_tables.drawn(seed).place
            connection.execute(f"DROP TABLE IF EXISTS {place} CASCADE; DROP TABLE IF EXISTS heirs".encode(), prepare=False)
    assert not failed, f"{len(failed)}\n" + "\n\n".join(failed)
