"""What is written for COPY is what PostgreSQL reads."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.columns import binary_copy, uuids
from bulk_pipelines.columns.arrow import Column
from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes.today import examples

KINDS = {"u": "uuid", "t": "text", "b": "boolean", "z": "timestamptz", "l": "text[]", "n": "bigint"}
TYPES: dict[str, Any] = {
    "t": pa.string(),
    "b": pa.bool_(),
    "z": pa.timestamp("us", tz="UTC"),
    "l": pa.list_(pa.string()),
    "n": pa.int64(),
}

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
row = st.fixed_dictionaries(
    {
        "u": st.none() | st.uuids(),
        "t": st.none() | text,
        "b": st.none() | st.booleans(),
        "z": st.none() | times,
        "l": st.none() | st.lists(text, max_size=4),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
    }
)
FULL = {"u": uuid.UUID(int=7), "t": "é\n", "b": True, "z": datetime(1999, 1, 1, tzinfo=UTC), "l": ["", "x"], "n": -1}
NOTHING = dict.fromkeys(KINDS)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(row, min_size=1, max_size=8), sliced=st.integers(0, 3))
@example(rows=[FULL, FULL], sliced=0)
@example(rows=[NOTHING, FULL, NOTHING], sliced=1)
def test_every_kind_with_and_without_nulls(engine: Engine, rows: list[dict[str, Any]], sliced: int) -> None:
    rows = rows[min(sliced, len(rows) - 1) :] if sliced else rows
    columns: dict[str, Column] = {
        name: pa.array([NOTHING[name]] * sliced + [each[name] for each in rows], kind)[sliced:]
        for name, kind in TYPES.items()
    }
    columns["u"] = pa.array([each["u"] and each["u"].bytes for each in rows], uuids.BINARY)
    columns["i"] = pa.array(range(len(rows)), pa.int64())
    with pool.transaction(engine) as connection:
        names = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
        connection.execute(f"CREATE TEMP TABLE target ({names}, i bigint) ON COMMIT DROP".encode())
        binary_copy.copy(connection, sql.Identifier("target"), binary_copy.encode(columns))
        connection.execute("SET LOCAL timezone = 'UTC'")
        found = connection.execute(f"SELECT {', '.join(KINDS)} FROM target ORDER BY i".encode()).fetchall()
    assert [dict(zip(KINDS, each, strict=True)) for each in found] == rows


def test_rows_go_in_the_order_of_their_ids() -> None:
    ids = [uuid.UUID(int=number << 64) for number in (5, 2**63, 1)]
    column = pa.array([each.bytes for each in ids], uuids.BINARY)
    encoded = binary_copy.by_id(binary_copy.encode({"id": column}), column)
    assert [value.as_py()[-16:] for value in encoded.rows] == [each.bytes for each in sorted(ids)]
