"""The parts of `bulk up`: programs that are kept running, processes that are found again, Dagster's storage address."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

from bulk_pipelines.cli import main
from bulk_pipelines.database import logs, pool
from bulk_pipelines.errors import BulkError, Conflict, Unavailable
from bulk_pipelines.orchestration.schema import APPLICATION
from bulk_pipelines.settings import Settings
from bulk_pipelines.up import home, processes, programs, supervisor
from bulk_pipelines.up.programs import Program
from bulk_pipelines_tests.scenes.waiting import until


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Program]:
    """A program that only waits."""
    made = Program("waiter", ["sleep", "600"], tmp_path / "waiter.log", processes.mark(tmp_path), lambda: True)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


def kill(program: Program) -> int:
    assert program.process is not None
    program.process.kill()
    program.process.wait()
    return program.process.pid


def test_a_program_that_ended_is_started_again(endless: Program) -> None:
    assert not endless.ensure_running()
    endless.start()
    assert not endless.ensure_running()
    killed = kill(endless)
    assert endless.ensure_running()
    assert endless.process is not None
    assert endless.process.pid != killed
    assert endless.process.poll() is None


def test_a_program_that_keeps_ending_is_an_error_and_one_that_lived_for_long_is_not(
    endless: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless.start()
    for _ in range(programs.EARLY_ENDS):
        kill(endless)
        assert endless.ensure_running()
    monkeypatch.setattr(programs, "STEADY", 0)
    kill(endless)
    assert endless.ensure_running()
    monkeypatch.undo()
    for _ in range(programs.EARLY_ENDS):
        kill(endless)
        assert endless.ensure_running()
    kill(endless)
    with pytest.raises(Unavailable, match="the waiter ended with code -9"):
        endless.ensure_running()


def test_a_program_that_cannot_run_says_its_last_words(tmp_path: Path) -> None:
    broken = Program("broken", ["sh", "-c", "echo the reason; exit 7"], tmp_path / "log", {}, lambda: True)
    broken.start()
    assert broken.process is not None
    broken.process.wait()
    with pytest.raises(Unavailable, match=r"the broken ended with code 7: the reason \(see .*log\)"):
        broken.ensure_running(endured=0)


def test_a_long_log_is_put_aside_at_the_next_start(endless: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONGEST", 10)
    endless.log.write_text("x" * 20)
    endless.start()
    assert endless.log.stat().st_size == 0
    assert endless.log.with_suffix(".log.old").read_text() == "x" * 20


def test_marked_processes_and_their_children_are_ended_even_when_they_do_not_listen(tmp_path: Path) -> None:
    stubborn = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print('ready', flush=True)\n"
        "signal.pause()"
    )
    environment = {**os.environ, **processes.mark(tmp_path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", stubborn], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    (tmp_path / "other").mkdir()
    stranger = subprocess.Popen(["sleep", "600"], env={**os.environ, **processes.mark(tmp_path / "other")})
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        until(lambda: len(processes.marked(processes.identity(tmp_path))) == 2, "parent and child are found")
        assert processes.end(processes.identity(tmp_path), grace=0.5) == 2
        assert processes.marked(processes.identity(tmp_path)) == []
        assert stranger.poll() is None
    finally:
        parent.kill()
        parent.communicate()
        stranger.kill()
        stranger.wait()


def test_only_one_supervisor(tmp_path: Path) -> None:
    lock = tmp_path / "up.lock"
    refused = pytest.raises(Conflict, match=f"as process {os.getpid()}")
    with supervisor.only_one(lock), refused, supervisor.only_one(lock):
        pass
    with supervisor.only_one(lock):
        pass


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:p%40ss@db:5433/bulk",
        "postgres://me:p%40ss@db:5433/bulk?sslmode=require",
        "postgresql://me:p%40ss@db:5433/bulk?options=-cwork_mem%3D64MB",
        "postgresql:///postgres?host=/tmp/somewhere",
    ],
)
def test_dagster_stores_in_the_same_database_by_the_driver_that_works(url: str) -> None:
    """psycopg 3, which a plain postgresql:// means to SQLAlchemy 2.1, fails in Dagster's storage. Its schema is said
    by its sessions, see `database/sessions_test.py`."""
    theirs, ours = make_url(home.storage_url(url)), make_url(url.replace("postgres:", "postgresql:"))
    assert theirs.drivername == "postgresql+psycopg2"
    assert (theirs.host, theirs.port, theirs.username, theirs.password, theirs.database) == (
        *(ours.host, ours.port, ours.username, ours.password, ours.database),
    )
    assert theirs.query == ours.query | {"application_name": APPLICATION}


def test_a_home_that_comes_to_another_database_prepares_it(
    tmp_path: Path, database_url: str, empty_database_url: str
) -> None:
    chosen = [Settings(database_url=url, home=tmp_path) for url in (database_url, empty_database_url)]
    for each in chosen:
        assert not home.has_storage(each, each.database_url)
        home.prepare(each, each.database_url)
        with pool.single(each.database_url) as connection:
            assert connection.execute("SELECT to_regnamespace('dagster')").fetchone() != (None,)
    home.migrate(chosen[1], empty_database_url)
    assert not home.has_storage(chosen[1], empty_database_url), "there was nothing to migrate"


@pytest.mark.long
def test_a_database_that_another_home_used_is_migrated_from_a_new_one(tmp_path: Path, database_url: str) -> None:
    first, second = (Settings(database_url=database_url, home=tmp_path / name) for name in ("first", "second"))
    home.prepare(first, database_url)
    done = home.dagster(first, database_url, "instance", "info")
    assert done.returncode == 0, done.stderr
    assert home.has_storage(second, database_url)
    home.migrate(second, database_url)
    with pool.single(database_url) as connection:
        connection.execute("DROP TABLE dagster.alembic_version; CREATE VIEW dagster.alembic_version AS SELECT 1 AS x")
    with pytest.raises(BulkError, match=r"Dagster's storage was not migrated: .*Error") as refused:
        home.migrate(second, database_url)
    assert "Background" not in str(refused.value)


def test_preparing_again_leaves_what_a_running_installation_uses(tmp_path: Path, database_url: str) -> None:
    chosen = Settings(database_url=database_url, home=tmp_path)
    place = home.prepare(chosen, database_url)
    home.write_workspace(place)
    place.socket.touch()
    before = place.configuration.stat()
    home.prepare(chosen, database_url)
    assert place.socket.exists()
    assert place.configuration.stat().st_ino == before.st_ino, "nobody reads a file that is half written"
    for path in (place.folder, place.logs, place.configuration, place.workspace):
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_installation_is_known_by_its_folder_however_it_is_reached(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    assert processes.mark(folder) == processes.mark(link)
    assert processes.identity(folder) != processes.identity(tmp_path)
    with pytest.raises(FileNotFoundError):
        processes.mark(tmp_path / "none")


@pytest.mark.parametrize("place", ["a-file/home", "a-file"])
def test_a_home_that_cannot_be_is_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    for command in ("up", "status", "migrate"):
        done = CliRunner().invoke(main, [command], env={"BULK_HOME": str(tmp_path / place), "BULK_DATABASE_URL": ""})
        assert done.exit_code == 1
        assert isinstance(done.exception, SystemExit)
        assert re.fullmatch(r"Error: .* cannot be used \(.*\): .* name another BULK_HOME\n", done.output)


def test_the_password_stands_in_no_file(tmp_path: Path, database_url: str) -> None:
    url = database_url.replace("postgres@", "postgres:s3cret@", 1)
    chosen = Settings(database_url=url, home=tmp_path)
    assert "s3cret" in str(home.environment(chosen, url))
    home.prepare(chosen, url)
    assert all("s3cret" not in path.read_text() for path in tmp_path.rglob("*") if path.is_file())
