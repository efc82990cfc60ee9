"""Any time that PostgreSQL can hold comes out of every format as itself or is refused; never as another one."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.request import ExportRequest, Format, Order
from bulk_pipelines_tests.scenes.export_files import exported, read_xlsx
from bulk_pipelines_tests.scenes.today import examples

DAY = 86_400_000_000
SINCE = 10_957 * DAY
"""PostgreSQL counts from 2000, Arrow from 1970."""
FIRST, LAST = -210_866_803_200_000_000, 9_224_318_015_999_999_999
INFINITY, BEFORE_ALL = LAST + 1, FIRST - 1
"""Stand for the infinities."""
ARROWS_LAST = 2**63 - 1
EDGES = [
    *(FIRST, LAST, INFINITY, BEFORE_ALL, ARROWS_LAST, ARROWS_LAST + 1, SINCE, 0),
    *(-62_135_596_800_000_000, -2_203_891_200_000_000, 253_402_300_800_000_000, 971_890_963_200_000_000),
]
NEAR_EDGES = st.builds(lambda edge, off: edge + off, st.sampled_from(EDGES), st.integers(-1_000_000, 1_000_000))
MOMENTS = st.one_of(st.sampled_from(EDGES), NEAR_EDGES, st.integers(FIRST, LAST)).map(
    lambda moment: max(BEFORE_ALL, min(moment, INFINITY))
)
EXCEL = range(-2_203_891_200_000_000, 253_402_300_800_000_000)
"""The moments from March 1900 to the end of 9999."""


def is_number(moment: int) -> bool:
    """Tell whether Excel has a number for it that it shows as a time of the same day."""
    return moment in EXCEL and moment % DAY <= DAY - 1_000


def hold(engine: Engine, moments: list[int]) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("SET LOCAL timezone = 'UTC'")
        connection.execute("DELETE FROM users")
        connection.execute(
            """
            INSERT INTO users (id, email, name, role, created_at)
            SELECT lpad(n::text, 32, '0')::uuid, n || '@b.c', 'Ann', 'author', CASE days
                WHEN 'Infinity' THEN 'infinity'
                WHEN '-Infinity' THEN '-infinity'
                ELSE timestamptz '2000-01-01 00:00+00' + make_interval(days => days::int)
                    + part * interval '1 microsecond'
            END
            FROM unnest(%s::float8[], %s::bigint[]) WITH ORDINALITY AS given (days, part, n)
            """,
            [[days_of(moment) for moment in moments], [(moment - SINCE) % DAY for moment in moments]],
        )


def days_of(moment: int) -> float:
    if FIRST <= moment <= LAST:
        return float((moment - SINCE) // DAY)
    return float("inf") if moment > LAST else float("-inf")


def told(engine: Engine, texts: list[str]) -> list[bool]:
    """Whether PostgreSQL reads each of them as the time that the row holds."""
    with pool.transaction(engine) as connection:
        return [
            same
            for (same,) in connection.execute(
                "SELECT text::timestamptz = created_at FROM unnest(%s::text[]) WITH ORDINALITY AS told (text, n)"
                " JOIN users ON id = lpad(n::text, 32, '0')::uuid ORDER BY n",
                [texts],
            )
        ]


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments=st.lists(MOMENTS, min_size=1, max_size=12))
@example(moments=[moment for moment in EDGES if FIRST <= moment <= ARROWS_LAST])
@example(moments=[ARROWS_LAST + 1])
@example(moments=[0, INFINITY])
def test_no_time_becomes_another(engine: Engine, moments: list[int]) -> None:
    hold(engine, moments)
    made = {each: exported_as(engine, each) for each in (Format.CSV, Format.NDJSON, Format.JSON)}
    every = [True] * len(moments)
    assert told(engine, made[Format.CSV].decode().split("\n")[1:-1]) == every
    assert told(engine, [json.loads(line)["created_at"] for line in made[Format.NDJSON].splitlines()]) == every
    assert told(engine, [record["created_at"] for record in json.loads(made[Format.JSON])]) == every
    if any(not FIRST <= moment <= ARROWS_LAST for moment in moments):
        for format_ in (Format.PARQUET, Format.XLSX):
            with pytest.raises(InvalidInput, match="^created_at: a row holds infinity, or a time after"):
                exported_as(engine, format_)
        return
    table = pq.read_table(pa.BufferReader(exported_as(engine, Format.PARQUET)))
    assert table["created_at"].cast(pa.int64()).to_pylist() == moments
    cells = [cell for (cell,) in read_xlsx(exported_as(engine, Format.XLSX))["users"][1:]]
    texts = [cell if isinstance(cell, str) else "-infinity" for cell in cells]
    assert told(engine, texts) == [not is_number(moment) for moment in moments]
    for moment, cell in zip(moments, cells, strict=True):
        if is_number(moment):
            assert abs((cell - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6 - moment) <= 600


def exported_as(engine: Engine, format_: Format) -> bytes:
    return exported(engine, ExportRequest("users", format_, ("created_at",), order=(Order("id"),)))
