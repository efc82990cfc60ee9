"""What was exported as CSV, NDJSON or JSON imports again, to the identical table: over its rows, and from nothing."""

import tempfile
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.export_files import insert_one, stored
from bulk_pipelines_tests.scenes.import_runs import finished
from bulk_pipelines_tests.scenes.today import examples

TEXT = st.sampled_from(
    [
        "",
        " ",
        "\\.",
        "\\N",
        '"',
        "a,b",
        "two\nlines",
        "\r\n",
        "\r",
        "\t",
        "\x01\x02\x1f",
        "null",
        "[]",
        "\ufeff",
        "_x0041_",
    ]
) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
MOMENT = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
OWNER = uuid.UUID(int=1)


@st.composite
def articles(draw: st.DrawFn) -> list[dict[str, Any]]:
    def article(number: int) -> dict[str, Any]:
        published = draw(st.none() | MOMENT)
        return {
            "id": draw(st.uuids()),
            "slug": f"article-{number}",
            "title": "t" + draw(TEXT),
            "description": draw(st.none() | TEXT),
            "body": draw(TEXT) + "b",
            "author_id": OWNER,
            "tags": draw(st.lists(TEXT, max_size=3)),
            "published_at": published,
            "status": "published" if published else "draft",
            "created_at": draw(MOMENT),
            "updated_at": draw(MOMENT),
        }

    return [article(number) for number in range(draw(st.integers(1, 6)))]


@pytest.mark.parametrize("format_", [Format.CSV, Format.NDJSON, Format.JSON])
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=articles(), job_id=st.integers(1, 1 << 30))
def test_an_export_imports_to_the_identical_table(
    engine: Engine, format_: Format, rows: list[dict[str, Any]], job_id: int
) -> None:
    with pool.transaction(engine) as connection:
        for table in ("articles", "articles_aside", "users", "rejected_row"):
            connection.execute(f"DELETE FROM {table}".encode())
        insert_one(connection, "users", {"id": OWNER, "email": "a@b.cd", "name": "Ann", "role": "author"})
        for row in rows:
            insert_one(connection, "articles", row)
    request = ExportRequest("articles", format_)
    before = stored(engine, request)
    with tempfile.TemporaryDirectory() as folder:
        write(engine, request, LocalStorage(Path(folder)), f"articles{request.suffix}")
        path = Path(folder) / f"articles{request.suffix}"

        again = finished(engine, path, "articles", Mode.UPSERT, job_id=job_id)
        assert again.rejected() == []
        assert stored(engine, request) == before

        with pool.transaction(engine) as connection:
            connection.execute("DELETE FROM articles")
        anew = finished(engine, path, "articles", Mode.INSERT, job_id=job_id + 1)
        assert anew.rejected() == []
        assert stored(engine, request) == before
