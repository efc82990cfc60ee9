"""Whatever PostgreSQL can hold is read back from every format as it was."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.exports.request import ExportRequest, Format, Order
from bulk_pipelines_tests.scenes.export_files import exported, insert_one, read, stored
from bulk_pipelines_tests.scenes.today import examples

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
AWKWARD = st.sampled_from(
    [
        "",
        " ",
        "\\.",
        "\\N",
        "\\",
        '"',
        '""',
        ",",
        "a,b",
        "\n",
        "\r",
        "\r\n",
        "\t",
        "two\nlines",
        "\x01\x02\x7f\x85\u2028",
        "NULL",
        "null",
        "[]",
        "{}",
        "=1+1",
        "-1",
        "<a href='x'>&amp;</a>",
        "]]>",
        "_x0041_",
        "_x005F_x0041_",
        "_x0041__x0042_",
        "\ufffe\uffff\ufeff",
        " leading and trailing ",
        "\U0001d4b3 is outside the first plane",
        "e\u0301",
    ]
)
TEXT = AWKWARD | ANY_TEXT
MOMENT = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
NOW = datetime(2026, 1, 10, 12, 30, 0, 123_456, UTC)
OWNER = uuid.UUID(int=0)


def article(
    number: int, text: str, nothing: str | None, tags: list[str | None], moment: datetime | None
) -> dict[str, Any]:
    return {
        "id": uuid.UUID(int=number),
        "slug": f"article-{number}",
        "title": "t" + text,
        "description": nothing,
        "body": text + "b",
        "author_id": OWNER,
        "tags": tags,
        "published_at": moment,
        "status": "published",
        "created_at": moment or NOW,
        "updated_at": NOW,
    }


@st.composite
def articles(draw: st.DrawFn) -> list[dict[str, Any]]:
    parts = st.tuples(TEXT, st.none() | TEXT, st.lists(st.none() | TEXT, max_size=4), st.none() | MOMENT)
    return [article(number, *each) for number, each in enumerate(draw(st.lists(parts, max_size=12)), start=1)]


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=articles())
@example(rows=[])
@example(rows=[article(1, "", None, [], datetime(2080, 1, 1, 0, 0, 0, 22_501, UTC))])
def test_every_format_reads_back(engine: Engine, rows: list[dict[str, Any]]) -> None:
    with pool.transaction(engine) as connection:
        connection.execute("DELETE FROM articles")
        connection.execute("DELETE FROM users")
        insert_one(connection, "users", {"id": OWNER, "email": "a@b.c", "name": "Ann", "role": "author"})
        for row in rows:
            insert_one(connection, "articles", row)
    for format_ in Format:
        request = ExportRequest("articles", format_, order=(Order("id"),))
        expected = stored(engine, request)
        assert len(expected) == len(rows)
        found = read(engine, request, exported(engine, request))
        if format_ is Format.XLSX:
            found = [tuple(map(as_moment, row, other)) for row, other in zip(found, expected, strict=True)]
        assert found == expected, format_


def as_moment(value: Any, expected: Any) -> Any:
    """Times are told to the millisecond, by a number of days that is 40 microseconds coarse in the year 9999. Those
    before Excel's first are text, and those behind the last millisecond of a day."""
    if not isinstance(expected, datetime):
        return value
    if isinstance(value, str):
        assert expected.year <= 1900 or (expected + timedelta(milliseconds=1)).day != expected.day
        value = datetime.fromisoformat(value)
    return expected if abs(value - expected) <= timedelta(microseconds=550) else value
