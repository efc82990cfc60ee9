"""SQL of people runs on connections that others get afterwards: what it does to a session ends with it."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.exports import streaming, submission
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.formats.files import expressions

CHANGES = {
    "search_path": "set_config('search_path', 'pg_temp', false)",
    "time zone": "set_config('timezone', 'Asia/Tokyo', false)",
    "dates": "set_config('datestyle', 'SQL, DMY', false)",
    "time-out": "set_config('statement_timeout', '1', false)",
    "only reading": "set_config('default_transaction_read_only', 'on', false)",
    "names": "set_config('bulk_pipelines.search_path', 'evil', false)",
    "role": "set_config('role', 'pg_monitor', false)",
    "lock": "pg_advisory_lock(4711)::text",
}
STATE = """
SELECT current_setting('search_path'), current_setting('timezone'), current_setting('datestyle'),
    current_setting('statement_timeout'), current_setting('default_transaction_read_only'), current_user,
    current_setting('bulk_pipelines.search_path'),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


@pytest.fixture
def few(database_url: str) -> Iterator[Engine]:
    """A pool of so few connections that whoever comes next gets the one that was changed."""
    found = pool.connect(database_url, size=2)
    yield found
    found.dispose()


def states(engine: Engine) -> set[tuple[Any, ...]]:
    with transaction(engine) as connection, transaction(engine) as other:
        return {(each.info.backend_pid, *each.execute(STATE).fetchall()[0]) for each in (connection, other)}


def exported(engine: Engine, change: str, format_: str) -> None:
    query = f"WITH done AS MATERIALIZED (SELECT {change} AS it) SELECT * FROM done"
    with transaction(engine) as connection:
        source = submission.source(connection, None, None, query)
    assert b"".join(streaming.stream(engine, ExportRequest.parse(source | {"format": format_})))


def evaluated(engine: Engine, change: str) -> None:
    table = pa.table({"name": ["a", "b"]})
    _, failed = expressions.evaluate(engine, table, [("note", f"name || ({change})")])
    assert not failed


def triggered(engine: Engine, change: str) -> None:
    with transaction(engine) as connection, namespaces.theirs(connection):
        connection.execute(f"DO $$ BEGIN PERFORM {change}; END $$".encode())


@pytest.fixture
def owned(database_url: str) -> Iterator[Engine]:
    """A pool of a login whose sessions begin as another role, which owns what it makes."""
    login = f"login_{database_url.rpartition('test_')[2][:16]}"
    with pool.single(database_url) as connection:
        connection.execute(f"CREATE ROLE {login} LOGIN; GRANT pg_monitor TO {login}".encode())
        connection.execute(f"ALTER ROLE {login} SET role = pg_monitor".encode())
        connection.execute("GRANT USAGE ON SCHEMA bulk TO pg_monitor")
    found = pool.connect(database_url.replace("postgres@", f"{login}@", 1), size=2)
    yield found
    found.dispose()
    with pool.single(database_url) as connection:
        connection.execute(f"DROP OWNED BY {login}; DROP ROLE {login}".encode())


WAYS: dict[str, Callable[[Engine, str], None]] = {
    "csv": lambda engine, change: exported(engine, change, "csv"),
    "parquet": lambda engine, change: exported(engine, change, "parquet"),
    "xlsx": lambda engine, change: exported(engine, change, "xlsx"),
    "expression": evaluated,
    "trigger": triggered,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_session_is_given_back_as_it_was(few: Engine, way: str) -> None:
    before = states(few)
    for name, change in CHANGES.items():
        WAYS[way](few, change)
        assert states(few) == before, name


def test_a_session_that_begins_as_another_role_goes_on_as_it(owned: Engine) -> None:
    before = states(owned)
    triggered(owned, "set_config('timezone', 'Asia/Tokyo', false)")
    assert states(owned) == before
