"""Whatever a table of PostgreSQL holds goes out by an export and in by an import, to the identical table."""

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources import reflection
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.import_runs import finished

JOBS = itertools.count(1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | st.sampled_from(
    ["", " ", "\\.", "\\N", "NULL", "null", '"', "a,b", "two\nlines", "\r", "\t", "{a}", "é", "[1]", "true"]
)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
JSON = (
    st.recursive(
        st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=5,
    )
    .filter(lambda value: value is not None)
    .map(lambda value: json.dumps(value, ensure_ascii=False))
)
KINDS: dict[str, st.SearchStrategy[str]] = {
    "smallint": st.integers(-32768, 32767).map(str),
    "integer": st.integers(-(1 << 31), (1 << 31) - 1).map(str),
    "bigint": WHOLE.map(str),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False).map(str)
    | st.sampled_from(["NaN", "Infinity", "1e-40", "12.500", "1e200"]),
    "numeric(9,3)": st.decimals(-999999, 999999, places=3).map(str),
    "real": st.floats(width=32).map(repr),
    "double precision": st.floats().map(repr),
    "boolean": st.sampled_from(["true", "false"]),
    "text": TEXT,
    "varchar(5)": TEXT.map(lambda text: text[:5]),
    "char(3)": st.text("ab é", max_size=3),
    "citext": TEXT,
    "date": st.dates().map(str) | st.sampled_from(["infinity", "-infinity", "0044-03-15 BC", "12026-01-01"]),
    "time": st.times().map(str) | st.just("24:00:00"),
    "time with time zone": st.times().map(lambda time: f"{time}+05:30"),
    "timestamp": st.datetimes().map(str) | st.sampled_from(["infinity", "0044-03-15 12:00:00 BC", "20000-01-01 01:02"]),
    "timestamptz": st.datetimes().map(lambda time: f"{time}+00")
    | st.sampled_from(["-infinity", "4713-01-01 00:00Z BC"]),
    "interval": st.timedeltas().map(lambda d: f"{d.days} days {d.seconds} seconds {d.microseconds} microseconds")
    | st.sampled_from(["1 year -2 mons 3 days", "-00:00:01"]),
    "uuid": st.uuids().map(str),
    "json": JSON,
    "jsonb": JSON.filter(lambda text: r"\u0000" not in text),
    "bytea": st.binary(max_size=9).map(lambda data: r"\x" + data.hex()),
    "inet": st.ip_addresses().map(str) | st.just("10.1.2.3/9"),
    "cidr": st.ip_addresses(v=4).map(str),
    "mood": st.sampled_from(["so so", "ümlaut", "it's"]),
    "positive": st.integers(1, 9).map(str),
    "integer[]": st.sampled_from(["{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={7,8}"]),
    "text[]": st.lists(TEXT, max_size=3).map(lambda texts: "{" + ",".join(map(json_text, texts)) + "}"),
    "mood[]": st.just('{"so so",NULL}'),
    "numrange": st.sampled_from(["[1,2)", "empty", "(,5]"]),
    "point": st.just("(1.5,-2)"),
    "bit(3)": st.just("101"),
    "pair": st.sampled_from(['(1,"a b")', '(,"")']),
}


def json_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@st.composite
def rows(draw: st.DrawFn) -> list[list[str | None]]:
    return [[draw(st.none() | values) for values in KINDS.values()] for _ in range(draw(st.integers(1, 4)))]


@pytest.fixture
def table(engine: Engine) -> list[str]:
    names = [f"c{number}" for number in range(len(KINDS))]
    columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(names, KINDS, strict=True))
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(
            f"""
            CREATE EXTENSION citext;
            CREATE TYPE mood AS ENUM ('so so', 'ümlaut', 'it''s');
            CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
            CREATE TYPE pair AS (a integer, b text);
            CREATE TABLE kinds (id integer PRIMARY KEY, {columns});
            """.encode(),
            prepare=False,
        )
    return names


@pytest.mark.parametrize("format_", [Format.CSV, Format.NDJSON, Format.JSON])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=rows())
def test_every_kind_comes_back(
    engine: Engine, table: list[str], format_: Format, values: list[list[str | None]]
) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("DELETE FROM kinds")
        for number, row in enumerate(values):
            casts = [sql.SQL("{}::" + kind).format(value) for value, kind in zip(row, KINDS, strict=True)]
            connection.execute(sql.SQL("INSERT INTO kinds VALUES ({}, {})").format(number, sql.SQL(", ").join(casts)))
        declared = reflection.reflect(connection, "kinds")
    before = stored(engine, table)
    request = ExportRequest(declared.name, format_, declaration=declared)
    with tempfile.TemporaryDirectory() as folder:
        write(engine, request, LocalStorage(Path(folder)), f"kinds{request.suffix}")
        path = Path(folder) / f"kinds{request.suffix}"
        over = finished(engine, path, declared, Mode.UPSERT, job_id=next(JOBS))
        assert over.rejected() == []
        assert stored(engine, table) == before
        with pool.transaction(engine) as connection:
            connection.execute("DELETE FROM kinds")
        anew = finished(engine, path, declared, Mode.INSERT, job_id=next(JOBS))
        assert anew.rejected() == []
        assert stored(engine, table) == before


def stored(engine: Engine, names: list[str]) -> list[tuple[Any, ...]]:
    query = sql.SQL("SELECT id, {} FROM kinds ORDER BY id").format(
        sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names)
    )
    with pool.transaction(engine) as connection:
        return connection.execute(query).fetchall()
