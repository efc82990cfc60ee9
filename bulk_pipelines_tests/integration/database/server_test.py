"""A private server: its life, its crashes, and what it refuses."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from bulk_pipelines.database import pool, session
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.errors import InvalidInput, Unavailable


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path that the server's user can reach."""
    with TemporaryDirectory(prefix="bulk-server-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def own(folder: Path, binaries: Path) -> Iterator[Server]:
    """A server of the test's own, not started yet."""
    made = Server(folder / "postgres", binaries)
    yield made
    made.stop_immediately()


def rows(server: Server) -> int:
    with pool.single(server.url()) as connection:
        (count,) = connection.execute("SELECT count(*) FROM kept").fetchone() or (0,)
    return int(count)


def keep_a_row(server: Server) -> None:
    with pool.single(server.url()) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")


def test_a_server_starts_keeps_its_data_and_stops(own: Server) -> None:
    assert not own.running()
    own.start()
    own.start()
    keep_a_row(own)
    own.restart()
    assert rows(own) == 1
    process = own.postmaster()
    own.stop()
    assert not own.running()
    assert process is not None
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    own.stop()


@pytest.mark.long
def test_a_crash_loses_nothing_that_was_committed(own: Server) -> None:
    own.start()
    keep_a_row(own)
    own.stop_immediately()
    own.start()
    assert rows(own) == 1
    process = own.postmaster()
    assert process is not None
    process.kill()
    process.wait(10)
    own.start()
    assert rows(own) == 1


def test_no_tcp_and_nobody_else_may_use_the_socket(own: Server) -> None:
    own.start()
    process = own.postmaster()
    assert process is not None
    assert [each for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN] == []
    assert (own.socket_directory / ".s.PGSQL.5432").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", [f"{'long' * 20}/{'path' * 20}", "with space, and comma", "it's"])
def test_a_long_or_strange_path_gets_a_short_link_for_its_socket(place: str, folder: Path, binaries: Path) -> None:
    deep = Server(folder / place / "postgres", binaries)
    try:
        deep.start()
        keep_a_row(deep)
        assert deep.socket_directory != deep.data
        assert deep.socket_directory.samefile(deep.data)
        assert deep.socket_directory.stat().st_mode & 0o077 == 0
    finally:
        deep.stop_immediately()
        deep.socket_directory.unlink()


def test_a_link_that_somebody_else_put_in_the_place_of_ours_is_refused(folder: Path, binaries: Path) -> None:
    deep = Server(folder / "with space" / "postgres", binaries)
    deep.data.mkdir(parents=True)
    link = deep.socket_directory
    link.unlink()
    link.symlink_to("/tmp")
    try:
        with pytest.raises(Unavailable, match="made by somebody else: remove it"):
            deep.url()
    finally:
        link.unlink()


def test_the_process_id_of_a_crashed_server_may_belong_to_others(own: Server) -> None:
    own.start()
    own.stop_immediately()
    stale = (own.data / "postmaster.pid").read_text().splitlines() if (own.data / "postmaster.pid").exists() else ["0"]
    user = own.data.stat().st_uid if os.geteuid() == 0 else None
    stranger = subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=user)
    try:
        (own.data / "postmaster.pid").write_text("\n".join([str(stranger.pid), *stale[1:]]))
        assert not own.running()
        own.start()
        assert own.running()
        assert stranger.poll() is None
    finally:
        stranger.communicate()


def test_a_killed_initdb_leaves_nothing_half_made(own: Server) -> None:
    unfinished = own.data.with_name("postgres.unfinished")
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18")
    own.start()
    assert own.running()
    assert not unfinished.exists()


def test_data_of_another_version_is_refused_with_a_way_out(own: Server) -> None:
    own.start()
    own.stop()
    (own.data / "PG_VERSION").write_text("9\n")
    with pytest.raises(Unavailable, match=r"made by PostgreSQL 9 .* move the folder away"):
        own.start()


def test_a_server_that_cannot_start_says_why(own: Server) -> None:
    own.start()
    own.stop()
    with (own.data / "postgresql.conf").open("a") as configuration:
        configuration.write("shared_buffers = nonsense\n")
    with pytest.raises(Unavailable, match=r"does not start: .*configuration file .* contains errors .*server\.log"):
        own.start()


def test_a_terminal_s_interrupt_does_not_reach_the_server(own: Server) -> None:
    own.start()
    process = own.postmaster()
    assert process is not None
    assert os.getpgid(process.pid) != os.getpgid(0)
    assert os.getsid(process.pid) != os.getsid(0)


def test_a_server_that_is_too_old_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server older than 15 can be had where these tests run, so the bound is raised instead."""
    monkeypatch.setattr(session, "OLDEST_SERVER", 99)
    with pytest.raises(InvalidInput, match=r"BULK_DATABASE_URL: the server is PostgreSQL \d+; 99 or newer is needed"):
        pool.single(server.url())
    engine = pool.connect(server.url())
    with pytest.raises(InvalidInput, match="99 or newer"), pool.transaction(engine):
        pass
    engine.dispose()


def test_a_hanging_server_is_killed(own: Server) -> None:
    own.start()
    process = own.postmaster()
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    own.stop(timeout=1)
    assert not own.running()
