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
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.formats import parquet_rows
from bulk_pipelines.formats import rows as row_files
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources import reflection
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.import_runs import finished
from bulk_pipelines_tests.scenes.today import examples

JOBS = itertools.count(1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | st.sampled_from(
    ["", " ", "\\.", "\\N", "NULL", "null", '"', "a,b", "two\nlines", "\r", "\t", "{a}", "é", "[1]", "true"]
)
ENDLESS = ["infinity", "-infinity"]
MOODS = ["so so", "ümlaut", "it's", "", "a,b", '"', "{}", "NULL", "null", "\\N", " x ", "two\nlines", "🍕"]
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
).map(lambda value: json.dumps(value, ensure_ascii=False))
NUMBERS = ["NaN", "Infinity", "-Infinity", "-0", "0.000", "1e-40", "12.500", "1e200", "-1e-16000", "9" * 60 + ".5"]
REALS = ["-0", "NaN", "Infinity", "-Infinity"]


def array(texts: list[str]) -> str:
    """Write an array as PostgreSQL reads it."""
    return "{" + ",".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts) + "}"


KINDS: dict[str, st.SearchStrategy[str]] = {
    "smallint": st.integers(-32768, 32767).map(str),
    "integer": st.integers(-(1 << 31), (1 << 31) - 1).map(str),
    "bigint": WHOLE.map(str),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False).map(str) | st.sampled_from(NUMBERS),
    "numeric(9,3)": st.decimals(-999999, 999999, places=3).map(str) | st.just("NaN"),
    "numeric(3,-2)": st.integers(-999, 999).map(lambda number: f"{number}00"),
    "real": st.floats(width=32).map(repr) | st.sampled_from(REALS),
    "double precision": st.floats().map(repr) | st.sampled_from([*REALS, "5e-324", "1.7976931348623157e308"]),
    "boolean": st.sampled_from(["true", "false"]),
    "text": TEXT,
    "varchar(5)": TEXT.map(lambda text: text[:5]),
    "char(3)": st.text("ab é", max_size=3),
    "citext": TEXT,
    "date": st.dates().map(str) | st.sampled_from([*ENDLESS, "0044-03-15 BC", "4713-01-01 BC", "5874897-12-31"]),
    "time": st.times().map(str) | st.just("24:00:00"),
    "time(2)": st.sampled_from(["24:00:00", "00:00:00.01", "23:59:59.99"]),
    "time with time zone": st.times().map(lambda time: f"{time}+05:30") | st.sampled_from(["24:00:00-15:59:59"]),
    "timestamp": st.datetimes().map(str)
    | st.sampled_from([*ENDLESS, "0044-03-15 12:00:00 BC", "20000-01-01 01:02", "294276-12-31 23:59:59.999999"]),
    "timestamptz": st.datetimes().map(lambda time: f"{time}+00")
    | st.sampled_from([*ENDLESS, "4713-01-01 00:00Z BC", "294276-12-31 23:59:59.999999Z"]),
    "interval": st.timedeltas().map(lambda d: f"{d.days} days {d.seconds} seconds {d.microseconds} microseconds")
    | st.sampled_from(["1 year -2 mons 3 days", "-00:00:01", "178000000 years", "-1 mons +1 day -00:00:00.000001"]),
    "uuid": st.uuids().map(str),
    "json": JSON,
    "jsonb": JSON.filter(lambda text: r"\u0000" not in text),
    "bytea": st.binary(max_size=9).map(lambda data: r"\x" + data.hex()),
    "inet": st.ip_addresses().map(str) | st.just("10.1.2.3/9"),
    "cidr": st.ip_addresses(v=4).map(str),
    "mood": st.sampled_from(MOODS),
    "positive": st.integers(1, 9).map(str),
    "integer[]": st.sampled_from(["{}", "{1,NULL,3}", "{{1,NULL},{3,4}}", "[0:1]={7,8}", "{NULL}", "{{{-1}}}"]),
    "text[]": st.lists(TEXT, max_size=3).map(array) | st.sampled_from(['{{a,NULL},{"NULL",""}}', "[-1:0]={x,NULL}"]),
    "mood[]": st.lists(st.sampled_from(MOODS), max_size=3).map(array),
    "few": st.sampled_from(["{}", "{1}", "{NULL,2}", "{{1,2},{3,4}}"]),
    "few[]": st.just('{"{1,2}","{}",NULL}'),
    "jsonb[]": st.just('{"{\\"a\\": [1, null]}",NULL,"null"}'),
    "bytea[]": st.just(r'{"\\\\x00ff",NULL}'),
    "timestamptz[]": st.just("{infinity,NULL,'2026-01-10 00:00:00+00'}".replace("'", '"')),
    "numeric(6,2)[]": st.just("{1.50,NaN,NULL}"),
    "numrange": st.sampled_from(["[1,2)", "empty", "(,5]"]),
    "point": st.just("(1.5,-2)"),
    "bit(3)": st.just("101"),
    "daterange": st.sampled_from(["[2026-01-01,infinity)", "empty"]),
    "int4multirange": st.sampled_from(["{}", "{[1,3),[5,7)}"]),
    "money": st.just("$1.50"),
    "macaddr": st.just("08:00:2b:01:02:03"),
    "tsvector": st.just("'a b':1A c:2"),
    "bit varying(5)": st.sampled_from(["", "10110"]),
    "oid": st.just("4294967295"),
    "pair": st.sampled_from(['(1,"a b")', '(,"")']),
}


@st.composite
def rows(draw: st.DrawFn) -> list[list[str | None]]:
    return [[draw(st.none() | values) for values in KINDS.values()] for _ in range(draw(st.integers(1, 4)))]


@pytest.fixture
def table(engine: Engine) -> list[str]:
    names = [f"c{number}" for number in range(len(KINDS))]
    columns = ", ".join(f'"{name}" {kind}' for name, kind in zip(names, KINDS, strict=True))
    moods = ", ".join("'" + mood.replace("'", "''") + "'" for mood in MOODS)
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(
            f"""
            CREATE EXTENSION citext;
            CREATE TYPE mood AS ENUM ({moods});
            CREATE DOMAIN few AS integer[] CHECK (cardinality(VALUE) < 5);
            CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
            CREATE TYPE pair AS (a integer, b text);
            CREATE TABLE kinds (id integer PRIMARY KEY, {columns});
            """.encode(),
            prepare=False,
        )
    return names


NOT_IN: dict[Format, dict[str, list[str]]] = {
    Format.CSV: {},
    # JSON has one null: there, that of a json column is no value.
    Format.NDJSON: {"json": ["null"], "jsonb": ["null"]},
    Format.JSON: {"json": ["null"], "jsonb": ["null"]},
    # Parquet has no such moments, and says so: test_parquet_refuses_what_it_does_not_have.
    Format.PARQUET: {
        "date": ENDLESS,
        "timestamp": [*ENDLESS, "294276-12-31 23:59:59.999999"],
        "timestamptz": [*ENDLESS, "294276-12-31 23:59:59.999999Z"],
    },
}
"""What PostgreSQL can hold and a format cannot."""


@pytest.mark.parametrize("format_", NOT_IN)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=rows())
def test_every_kind_comes_back(
    engine: Engine, table: list[str], format_: Format, values: list[list[str | None]]
) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("DELETE FROM kinds")
        for number, drawn in enumerate(values):
            row = without(drawn, format_)
            casts = [sql.SQL("{}::" + kind).format(value) for value, kind in zip(row, KINDS, strict=True)]
            connection.execute(sql.SQL("INSERT INTO kinds VALUES ({}, {})").format(number, sql.SQL(", ").join(casts)))
        declared = reflection.reflect(connection, "kinds")
    before = stored(engine, table)
    request = ExportRequest(declared.name, format_, declaration=declared)
    with tempfile.TemporaryDirectory() as folder:
        write(engine, request, LocalStorage(Path(folder)), f"kinds{request.suffix}")
        path = Path(folder) / f"kinds{request.suffix}"
        path = landed(path, format_)
        over = finished(engine, path, declared, Mode.UPSERT, job_id=next(JOBS))
        assert over.rejected() == []
        assert stored(engine, table) == before
        with pool.transaction(engine) as connection:
            connection.execute("DELETE FROM kinds")
        anew = finished(engine, path, declared, Mode.INSERT, job_id=next(JOBS))
        assert anew.rejected() == []
        assert stored(engine, table) == before


def landed(path: Path, format_: Format) -> Path:
    """Return the file as it is landed: a table becomes rows."""
    if format_ is not Format.PARQUET:
        return path
    target = path.with_suffix(".rows")
    with path.open("rb") as file:
        target.write_bytes(b"".join(row_files.written(*parquet_rows.parquet(file, 200.0))))
    return target


def without(row: list[str | None], format_: Format) -> list[str | None]:
    """Return a row without the values that the format does not have."""
    return [None if value in NOT_IN[format_].get(kind, ()) else value for value, kind in zip(row, KINDS, strict=True)]


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in NOT_IN[Format.PARQUET].items() for value in values]
)
def test_parquet_refuses_what_it_does_not_have(
    engine: Engine, table: list[str], tmp_path: Path, kind: str, value: str
) -> None:
    name = table[list(KINDS).index(kind)]
    with pool.transaction(engine) as connection:
        connection.execute(f'INSERT INTO kinds (id, "{name}") VALUES (1, %s)'.encode(), [value])
        declared = reflection.reflect(connection, "kinds")
    with pytest.raises(InvalidInput, match=f"{name}: a row holds infinity, or a time after"):
        write(engine, ExportRequest(declared.name, Format.PARQUET, declaration=declared), LocalStorage(tmp_path), "x")
    assert not list(tmp_path.iterdir())


def stored(engine: Engine, names: list[str]) -> list[tuple[Any, ...]]:
    query = sql.SQL("SELECT id, {} FROM kinds ORDER BY id").format(
        sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names)
    )
    with pool.transaction(engine) as connection:
        return connection.execute(query).fetchall()
