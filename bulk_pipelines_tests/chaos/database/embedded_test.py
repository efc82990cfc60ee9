"""The shared embedded server: the last one out turns off the light, however its users end."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import shared
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.scenes.waiting import until

USE = """
import sys
from pathlib import Path
from bulk_pipelines.database.embedded import shared
with shared.held(Path(sys.argv[1]), Path(sys.argv[2])) as server:
    print("ready", flush=True)
    sys.stdin.read()
"""

USE_UNTIL_EXIT = """
import sys
from pathlib import Path
from bulk_pipelines.database.embedded import shared
shared.url_until_exit(Path(sys.argv[1]), "postgres")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(binaries: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix="bulk-shared-", dir="/tmp") as name:
        place = Path(name) / "database"
        yield place
        Server(place / "postgres", binaries).stop_immediately()
        for keeper in keepers(place):
            keeper.kill()


def keepers(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        ours = "bulk_pipelines.database.embedded.keeper" in command and str(folder) in command
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def user(folder: Path, binaries: Path, script: str = USE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder), str(binaries)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def users(folder: Path, binaries: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that started at the same time and all have the server."""
    started = [user(folder, binaries) for _ in range(count)]
    try:
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        yield started
    finally:
        for each in started:
            each.kill()
            each.communicate()


def answers(server: Server) -> bool:
    with pool.single(server.url(), timeout=5) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def gone(folder: Path, server: Server) -> None:
    until(lambda: not server.running() and not keepers(folder), "the server and its keeper are gone")


def test_many_start_at_once_and_the_last_one_out_stops_it(folder: Path, binaries: Path) -> None:
    server = Server(folder / "postgres", binaries)
    with users(folder, binaries, 4) as processes:
        assert len(keepers(folder)) == 1
        for process in processes:
            assert answers(server)
            process.communicate("")
            assert process.returncode == 0
        assert not server.running()
        gone(folder, server)


def test_who_leaves_returns_when_the_server_has_stopped(folder: Path, binaries: Path) -> None:
    with shared.held(folder, binaries) as server:
        assert answers(server)
    assert not server.running()


def test_a_guest_leaves_the_server_as_it_was_found(folder: Path, binaries: Path) -> None:
    with users(folder, binaries, 1):
        with shared.held(folder, binaries) as server:
            process = server.postmaster()
        assert server.postmaster() == process
        assert answers(server)


def test_users_that_are_killed_still_turn_off_the_light(folder: Path, binaries: Path) -> None:
    server = Server(folder / "postgres", binaries)
    with users(folder, binaries, 3) as processes:
        for process in processes:
            assert answers(server)
            process.kill()
            process.wait()
        gone(folder, server)
    with shared.held(folder, binaries):
        assert answers(server)


def test_a_killed_keeper_is_replaced_by_the_next_user(folder: Path, binaries: Path) -> None:
    server = Server(folder / "postgres", binaries)
    with users(folder, binaries, 1) as first:
        keepers(folder)[0].kill()
        until(lambda: keepers(folder) == [], "the keeper is dead")
        with users(folder, binaries, 1) as second:
            assert len(keepers(folder)) == 1
            first[0].kill()
            first[0].wait()
            assert answers(server)
            second[0].kill()
            second[0].wait()
            gone(folder, server)


def test_everything_killed_at_once_blocks_nobody(folder: Path, binaries: Path) -> None:
    server = Server(folder / "postgres", binaries)
    with users(folder, binaries, 2) as processes:
        postmaster = server.postmaster()
        assert postmaster is not None
        for victim in (*keepers(folder), *(psutil.Process(each.pid) for each in processes), postmaster):
            victim.kill()
        with shared.held(folder, binaries) as again:
            assert answers(again)
    gone(folder, server)


def test_a_server_left_running_by_a_killed_keeper_and_user_is_used_and_then_stopped(
    folder: Path, binaries: Path
) -> None:
    server = Server(folder / "postgres", binaries)
    with users(folder, binaries, 1) as processes:
        keepers(folder)[0].kill()
        processes[0].kill()
        processes[0].wait()
        assert server.running()
    with shared.held(folder, binaries):
        assert answers(server)
    assert not server.running()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, None])
def test_a_process_that_asked_until_its_exit(ending: signal.Signals | None, folder: Path, binaries: Path) -> None:
    server = Server(folder / "postgres", binaries)
    process = user(folder, binaries, USE_UNTIL_EXIT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert server.running()
    if ending is not None:
        process.send_signal(ending)
    process.communicate("")
    gone(folder, server)


@pytest.mark.long
def test_starting_and_stopping_in_turns_never_fails(folder: Path, binaries: Path) -> None:
    """Each enters while another one may be the last to leave."""
    script = USE.replace("sys.stdin.read()", "") + "\nprint('left')"
    processes = []
    for _ in range(12):
        processes.append(user(folder, binaries, script))
        if len(processes) >= 4:
            answer, _ = processes.pop(0).communicate(timeout=60)
            assert answer == "ready\nleft\n"
    for process in processes:
        assert process.communicate(timeout=60)[0] == "ready\nleft\n"
    gone(folder, Server(folder / "postgres", binaries))


def test_data_in_use_is_not_removed(folder: Path, binaries: Path) -> None:
    with shared.held(folder, binaries) as server:
        assert not shared.remove(folder)
        assert answers(server)
    assert shared.remove(folder, patience=10)
    assert not folder.exists()
