"""The parts of `bulk up`: services that are kept running, processes that are found again, Dagster's storage address."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from bulk_pipelines.database import logs
from bulk_pipelines.errors import Conflict, Unavailable
from bulk_pipelines.settings import Settings
from bulk_pipelines.up import home, processes, services, supervisor
from bulk_pipelines.up.services import Service
from bulk_pipelines_tests.waiting import until


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Service]:
    """A service that only waits."""
    made = Service("waiter", ["sleep", "600"], tmp_path / "waiter.log", processes.mark(tmp_path), lambda: True)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


def kill(service: Service) -> int:
    assert service.process is not None
    service.process.kill()
    service.process.wait()
    return service.process.pid


def test_a_service_that_ended_is_started_again(endless: Service) -> None:
    assert not endless.ensure_running()
    endless.start()
    assert not endless.ensure_running()
    killed = kill(endless)
    assert endless.ensure_running()
    assert endless.process is not None
    assert endless.process.pid != killed
    assert endless.process.poll() is None


def test_a_service_that_keeps_ending_is_an_error_and_one_that_lived_for_long_is_not(
    endless: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless.start()
    for _ in range(services.EARLY_ENDS):
        kill(endless)
        assert endless.ensure_running()
    monkeypatch.setattr(services, "STEADY", 0)
    kill(endless)
    assert endless.ensure_running()
    monkeypatch.undo()
    for _ in range(services.EARLY_ENDS):
        kill(endless)
        assert endless.ensure_running()
    kill(endless)
    with pytest.raises(Unavailable, match="the waiter ended with code -9"):
        endless.ensure_running()


def test_a_service_that_cannot_run_says_its_last_words(tmp_path: Path) -> None:
    broken = Service("broken", ["sh", "-c", "echo the reason; exit 7"], tmp_path / "log", {}, lambda: True)
    broken.start()
    assert broken.process is not None
    broken.process.wait()
    with pytest.raises(Unavailable, match=r"the broken ended with code 7: the reason \(see .*log\)"):
        broken.ensure_running(endured=0)


def test_a_long_log_is_put_aside_at_the_next_start(endless: Service, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_dagster_stores_in_a_schema_of_its_own_by_the_driver_that_works(url: str) -> None:
    """psycopg 3, which a plain postgresql:// means to SQLAlchemy 2.1, fails in Dagster's storage."""
    theirs, ours = make_url(home.storage_url(url)), make_url(url.replace("postgres:", "postgresql:"))
    assert theirs.drivername == "postgresql+psycopg2"
    assert (theirs.host, theirs.port, theirs.username, theirs.password, theirs.database) == (
        *(ours.host, ours.port, ours.username, ours.password, ours.database),
    )
    assert str(theirs.query["options"]).endswith("-csearch_path=dagster")
    for name, value in ours.query.items():
        assert value == theirs.query[name] or (name == "options" and str(theirs.query[name]).startswith(str(value)))


def test_the_password_stands_in_no_file(tmp_path: Path, database_url: str) -> None:
    url = database_url.replace("postgres@", "postgres:s3cret@", 1)
    chosen = Settings(database_url=url, home=tmp_path)
    assert "s3cret" in str(home.environment(chosen, url))
    home.prepare(chosen, url)
    assert all("s3cret" not in path.read_text() for path in tmp_path.rglob("*") if path.is_file())
