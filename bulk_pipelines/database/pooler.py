"""A pooler between us and PostgreSQL, such as PgBouncer, must give each session a server of its own.

We keep settings, locks and prepared statements in sessions. Where a server changes hands after each transaction, all of
these are lost at random, or are found in a stranger's session; so that is refused before anything is written.
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
"""Others use the pool, too: one of them may take the server that was to be met again."""

WHO = b"SELECT pg_catalog.pg_backend_pid()"

SHARED = (
    "the pooler before the database shares servers between sessions (PgBouncer's pool_mode = transaction or "
    "statement): set pool_mode = session for this database, or name PostgreSQL itself"
)

proven: set[tuple[tuple[str, Any], ...]] = set()
"""The addresses whose sessions are known to keep their servers."""


def refuse_shared_servers(connection: psycopg.Connection[Any], pid: int, arguments: Mapping[str, Any]) -> None:
    """Refuse a pooler that shares servers. `pid`: the server process that answered on this connection.

    A pooler makes up the process id that it tells at the start. `arguments` open another session at the same address.
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
            # In a pool of few servers, that of the other session may be the one that we would wait for.
            if len(ours) > 1 or theirs in ours or asked(connection, WHO, seconds) not in ours:
                raise InvalidInput(URL_FIELD, SHARED)
            asked(other, b"ROLLBACK", seconds)
    proven.add(key)


def asked(connection: psycopg.Connection[Any], statement: bytes, seconds: float) -> bytes | None:
    """One statement's answer. A pooler that has no server left lets a session wait for minutes; this does not."""
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
                raise InvalidInput(URL_FIELD, SHARED)  # the pooler's own answer, when it shares by statement
            raise psycopg.errors.error_from_result(result)
        value = result.get_value(0, 0) if result.ntuples else value
