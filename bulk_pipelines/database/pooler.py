"""Refusing a pooler before PostgreSQL, such as PgBouncer, that does not give each session a server process of its own.

This program keeps settings, locks and prepared statements in sessions. Where a server process changes hands after each
transaction, all of these are lost at random, or turn up in another client's session. So such a pooler is refused before
anything is written.
"""

import contextlib
import select
import time
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

from bulk_pipelines.database.session import URL_FIELD
from bulk_pipelines.errors import InvalidInput, Unavailable

TRIALS = 5
"""How often the test is repeated. Others use the pool, too, and one of them may have taken the server process that the
test would have met again."""

WHO = b"SELECT pg_catalog.pg_backend_pid()"

SHARED = (
    "the pooler before the database shares servers between sessions (PgBouncer's pool_mode = transaction or "
    "statement): set pool_mode = session for this database, or name PostgreSQL itself"
)

proven: set[tuple[tuple[str, Any], ...]] = set()
"""The addresses whose sessions are known to keep their server processes."""


def refuse_shared_servers(connection: psycopg.Connection[Any], pid: int, arguments: Mapping[str, Any]) -> None:
    """Refuse a pooler that shares server processes between sessions. `pid` is the server process that answered on this
    connection; `arguments` open another session at the same address.

    A pooler makes up the process id that it tells at the start of a session, so when that id is `pid`, there is no
    pooler.
    """
    if pid == connection.info.backend_pid:
        return
    key = tuple(sorted((name, value) for name, value in arguments.items() if name != "application_name"))
    if key in proven:
        return
    seconds = float(arguments["connect_timeout"])
    with contextlib.closing(psycopg.connect(**arguments, autocommit=True)) as other:
        for _ in range(TRIALS):
            ours = {asked(connection, WHO, seconds), asked(connection, WHO, seconds)}
            asked(other, b"BEGIN", seconds)
            theirs = asked(other, WHO, seconds)
            # In a pool of few servers, the other session may have got the one that this session would have to wait for.
            if len(ours) > 1 or theirs in ours or asked(connection, WHO, seconds) not in ours:
                raise InvalidInput(URL_FIELD, SHARED)
            asked(other, b"ROLLBACK", seconds)
    proven.add(key)


def asked(connection: psycopg.Connection[Any], statement: bytes, seconds: float) -> bytes | None:
    """Return a statement's answer. A pooler that has no server left lets a session wait for minutes; this gives up
    after `seconds`."""
    server = connection.pgconn
    server.send_query(statement)
    answers = select.poll()
    answers.register(server.socket, select.POLLIN)
    deadline = time.monotonic() + seconds
    while server.flush():
        time.sleep(0.001)
    value = None
    while True:
        while server.is_busy():
            if not answers.poll(max(0, deadline - time.monotonic()) * 1000):
                raise Unavailable(
                    f"the pooler before the database gave a second session no server within {seconds:.0f} s: "
                    "raise its pool size"
                )
            server.consume_input()
        result = server.get_result()
        if result is None:
            return value
        if result.status not in {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}:
            if statement == b"BEGIN":
                raise InvalidInput(URL_FIELD, SHARED)  # a pooler that shares by statement refuses BEGIN itself
            raise psycopg.errors.error_from_result(result)
        value = result.get_value(0, 0) if result.ntuples else value
