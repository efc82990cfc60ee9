"""Databases as people have them: with settings that a role or a database can turn for its sessions, and behind poolers.

`SESSIONS=turned`, or `SESSIONS=pgbouncer`, in the environment gives such a database to every test that asks for one.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from bulk_pipelines.database import migrations, pool
from bulk_pipelines.database.embedded import owner
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.servers.processes import answers, dies_with_us, free_port, stop, wait_until

TURNED = {
    "client_encoding": "LATIN1",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "search_path": "nowhere",
    "statement_timeout": "5s",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "5s",
    "idle_session_timeout": "5s",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "standard_conforming_strings": "off",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "array_nulls": "off",
    "xmloption": "document",
    "timezone_abbreviations": "Australia",
    "gin_fuzzy_search_limit": "1",
    "transform_null_equals": "on",
    "exit_on_error": "on",
}
"""Settings that change what a program sees. A program is safe from them only if it says what it needs."""


until_the_end = ExitStack()
atexit.register(until_the_end.close)
in_front: dict[Path, str] = {}


def turn(connection: psycopg.Connection[Any], whose: str, name: str, settings: Mapping[str, str] = TURNED) -> None:
    """Turn the settings of a database or a role (`whose` is DATABASE or ROLE) for the sessions that begin from now
    on."""
    for setting, value in settings.items():
        connection.execute(
            sql.SQL("ALTER {} {} SET {} = {}").format(
                sql.SQL(whose), sql.Identifier(name), sql.Identifier(setting), sql.Literal(value)
            )
        )


@contextmanager
def as_asked(server: Server, database: str) -> Iterator[str]:
    """Provide the address of a database whose sessions are as SESSIONS wants them."""
    match os.environ.get("SESSIONS", ""):
        case "":
            yield server.url(database)
        case "turned":
            with pool.single(server.url()) as connection:
                turn(connection, "DATABASE", database)
            yield server.url(database)
        case "pgbouncer":
            yield f"{common_pgbouncer(server)}/{database}"
        case other:
            raise ValueError(f"SESSIONS={other}: there are turned and pgbouncer")


def common_pgbouncer(server: Server) -> str:
    """Return the address of the PgBouncer that all tests of this process share. It ends with the process."""
    if server.data not in in_front:
        in_front[server.data] = until_the_end.enter_context(pgbouncer(server, "session"))
    return in_front[server.data]


def find_pgbouncer() -> str:
    """Return the path of the program. Skip the test if it is not installed."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer is installed here (Debian: apt-get install pgbouncer)")
    return program


@contextmanager
def pgbouncer(server: Server, mode: str, **settings: object) -> Iterator[str]:
    """Run a PgBouncer in front of this server, and provide its address without a database."""
    program, port = find_pgbouncer(), free_port()
    chosen = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": mode,
        "default_pool_size": 50,
        "max_client_conn": 500,
    } | settings
    root = os.geteuid() == 0
    user, group = owner.of(server.data)
    with tempfile.TemporaryDirectory(prefix="bulk-pgbouncer-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # As another user, PgBouncer may not be able to reach the folder of the socket, so it is started in that folder.
        socket = "/proc/self/cwd" if root else server.socket_directory
        lines = ["[databases]", f"* = host={socket} user=postgres", "[pgbouncer]"]
        lines += [f"{key} = {value}" for key, value in chosen.items()]
        (folder / "pgbouncer.ini").write_text("\n".join(lines))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, str(folder / "pgbouncer.ini")],
                stdin=subprocess.DEVNULL,
                cwd=server.data,
                stdout=log,
                stderr=log,
                user=user if root else None,
                group=group if root else None,
                preexec_fn=dies_with_us,  # noqa: PLW1509 - before any thread
            )
        try:
            wait_until(lambda: answers(port) or process.poll() is not None, "PgBouncer listens")
            assert process.poll() is None, (folder / "log").read_text()
            yield f"postgresql://postgres@127.0.0.1:{port}"
        finally:
            stop(process)


@contextmanager
def role(url: str, name: str) -> Iterator[str]:
    """Make a role for the block, and provide the address with the role in place of the owner."""
    with pool.single(url) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
    try:
        yield url.replace("postgres@", f"{name}@", 1)
    finally:
        with pool.single(url) as connection:
            connection.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}".encode())


def refused(url: str, error: type[Exception], message: str) -> None:
    """Check that everything that connects refuses the database in one line, before anything is written."""
    engine = pool.connect(url)
    tries = (
        lambda: pool.single(url),
        lambda: migrations.apply(url),
        lambda: migrations.state(url),
        lambda: pool.transaction(engine).__enter__(),
    )
    for attempt in tries:
        with pytest.raises(error, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    engine.dispose()
