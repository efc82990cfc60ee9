"""Exports of a table that somebody is filling anew: they have the rows of before or of after, never neither."""

import time

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import Cancelled
from bulk_pipelines.exports import submission
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.exports.streaming import stream
from bulk_pipelines_tests.scenes.changing_tables import meanwhile
from bulk_pipelines_tests.scenes.export_files import insert_users, watching

REFRESH = """
CREATE TEMP TABLE fresh AS SELECT * FROM users;
TRUNCATE users CASCADE;
INSERT INTO users SELECT * FROM fresh
"""
REWRITE = "ALTER TABLE users ALTER name TYPE varchar(100)"


@pytest.mark.parametrize("change", [REFRESH, REWRITE], ids=["truncate", "rewrite"])
@pytest.mark.parametrize("format_", [Format.CSV, Format.PARQUET])
@pytest.mark.parametrize("query", [None, "SELECT id, name FROM users"], ids=["table", "query"])
def test_rows_that_are_there_at_every_moment_are_exported(
    engine: Engine, query: str | None, format_: Format, change: str
) -> None:
    insert_users(engine, 100)
    with transaction(engine) as connection:
        source = {"resource": "users"} if query is None else submission.source(connection, None, None, query)
    request = ExportRequest.parse(source | {"format": format_})
    whole = b"".join(stream(engine, request))
    assert meanwhile(engine, lambda: b"".join(stream(engine, request)), change) == whole


@pytest.mark.parametrize("query", [None, "SELECT id, name FROM users"], ids=["table", "query"])
def test_an_export_that_waits_for_a_change_can_be_called_off(engine: Engine, query: str | None) -> None:
    with transaction(engine) as connection:
        source = {"resource": "users"} if query is None else submission.source(connection, None, None, query)
    request = ExportRequest.parse(source | {"format": Format.CSV})
    with watching(engine) as stranger, stranger.transaction():
        stranger.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        begun = time.monotonic()
        with pytest.raises(Cancelled):
            b"".join(stream(engine, request, cancelled=lambda: time.monotonic() - begun > 0.5))
        assert time.monotonic() - begun < 8
