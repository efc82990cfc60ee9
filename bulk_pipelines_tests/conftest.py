"""Real servers for the tests: one PostgreSQL for a test session, a fresh database for each test.

`DATABASE=15` in the environment names the major version of an installed server to use instead of the embedded one;
`SESSIONS=turned` and `SESSIONS=pgbouncer` give databases whose sessions are set up as some people have them, see
`scenes/sessions.py`.
"""

import logging
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded import binaries as programs
from bulk_pipelines.database.embedded import shared
from bulk_pipelines.database.embedded.locks import locked
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.telemetry import logs
from bulk_pipelines_tests.scenes import databases
from bulk_pipelines_tests.scenes.today import SEED
from bulk_pipelines_tests.servers.fixtures import (
    any_key_s3_server,
    faulty_s3,
    ftp_server,
    ftpes_server,
    ftps_server,
    plain_ftp_server,
    plain_sftp_server,
    s3_bucket,
    s3_server,
    sftp_server,
    silent_ftp_server,
    sizeless_ftp_server,
    vague_sftp_server,
)

__all__ = [
    "any_key_s3_server",
    "faulty_s3",
    "ftp_server",
    "ftpes_server",
    "ftps_server",
    "plain_ftp_server",
    "plain_sftp_server",
    "s3_bucket",
    "s3_server",
    "sftp_server",
    "silent_ftp_server",
    "sizeless_ftp_server",
    "vague_sftp_server",
]

TEMPLATE = "migrated"
MEMORY = Path("/dev/shm")
ROOM = 8 << 30
"""The least size, in bytes, of a file system in memory that tests may write to."""


def roomy() -> Path:
    """Return the folder for what tests write. It lies in memory if there is room: two thousand tests have a database of
    their own, and most of the time that it takes to make one goes into making files."""
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).total >= ROOM
    return MEMORY if has_room else Path(tempfile.gettempdir())


def server_folders() -> Path:
    """Return the folder where the servers of test sessions keep their data. Its path is short, because unix sockets
    need that."""
    return roomy() / f"bulk-tests-{os.geteuid()}"


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of the PostgreSQL programs that this session tests with."""
    version = os.environ.get("DATABASE", "")
    if not version:
        return programs.embedded()
    found = programs.installed(int(version))
    if found is None:
        pytest.skip(
            f"DATABASE={version}: no PostgreSQL {version} server is installed here (no initdb in the usual places)"
        )
    return found


@pytest.fixture(scope="session")
def server(binaries: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A running PostgreSQL that the workers of a parallel run share. It stops when the last of them ends, in whatever
    way."""
    run = getattr(request.config, "workerinput", {}).get("testrunuid") or request.config.option.testrunuid
    with shared.held(server_folders() / run[:12], binaries) as running:
        databases.spare_the_disk(running)
        yield running


def pytest_configure(config: pytest.Config) -> None:
    """Give the session one name, which the workers of a parallel run get, too. Let Ctrl-C work for all that tests
    start: a shell starts what runs in its background with that signal ignored. Let pytest's folders for tests be where
    there is room."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(roomy()))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput") and not config.option.testrunuid:
        config.option.testrunuid = uuid.uuid4().hex


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files begin first whose tests may take longest. One that began last would leave the other workers without
    work for minutes."""
    longest: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0.0), float(mark.args[0]) if mark else 0.0)
    items.sort(key=lambda item: -longest[item.path])


def pytest_report_header() -> str:
    return f"seed of the day: SEED={SEED}"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the data of this session, and of sessions that were killed."""
    if not hasattr(config, "workerinput") and server_folders().exists():
        for folder in server_folders().iterdir():
            shared.remove(folder, patience=10 if folder.name == config.option.testrunuid[:12] else 0)


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """A command that a test runs in this process says which of our lines are written, for good. Another test has not
    asked for that."""
    ours = logging.getLogger(logs.ROOM)
    handlers, level = list(ours.handlers), ours.level
    yield
    ours.handlers[:] = handlers
    ours.setLevel(level)


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """The name of a migrated database with the samples to copy, which is made once for the session."""
    with locked(server.data.parent / "template.lock"), databases.admin(server) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone():
            connection.execute(f"DROP DATABASE IF EXISTS {TEMPLATE}_unfinished WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {TEMPLATE}_unfinished")
            migrations.apply(server.url(f"{TEMPLATE}_unfinished"))
            samples.furnish(server.url(f"{TEMPLATE}_unfinished"))
            connection.execute(f"ALTER DATABASE {TEMPLATE}_unfinished RENAME TO {TEMPLATE}")
    return TEMPLATE


@pytest.fixture
def empty_database_url(server: Server) -> Iterator[str]:
    """The address of an empty database of the test's own."""
    with databases.fresh(server, "template1") as url:
        yield url


@pytest.fixture
def database_url(server: Server, template: str) -> Iterator[str]:
    """The address of a migrated database of the test's own."""
    with databases.fresh(server, template) as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A pool on a migrated database of the test's own."""
    made = pool.connect(database_url, application="test")
    yield made
    made.dispose()
