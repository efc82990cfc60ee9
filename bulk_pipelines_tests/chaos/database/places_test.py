"""One home, reached by other paths, from other containers, by other users: one server on its data, or a refusal."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from bulk_pipelines.database.embedded import locks, machine, shared
from bulk_pipelines.database.embedded.server import FOLDER, Server
from bulk_pipelines.errors import Unavailable
from bulk_pipelines_tests.scenes.homes import MOUNT, USE, for_root, leaves, postmasters, rows, script, since, user
from bulk_pipelines_tests.scenes.privileges import no_locks_for_good
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.long
STOP = """
import sys
from pathlib import Path
from bulk_pipelines.database.embedded.server import Server
server = Server(Path(sys.argv[1]) / "postgres", Path(sys.argv[2]))
assert server.postmaster() is None, "it can be seen from here"
assert server.running()
server.stop()
assert not server.running()
"""
CONTAINER = [*MOUNT, "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--kill-child"]


def contained(command: list[str], folder: Path, mounted: Path, by: Sequence[str] = CONTAINER) -> list[str]:
    """The command where it sees the folder as `mounted`, and in a container no process but its own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return [*by, "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(folder), str(mounted), *command]


def test_a_home_by_a_link_is_the_same_home(folder: Path, binaries: Path, other: Path) -> None:
    link = other / "link"
    link.symlink_to(folder)
    server = Server(folder / "postgres", binaries)
    with user(script(USE, folder, binaries)) as first:
        began = since(first)
        with user(script(USE, link, binaries)) as second:
            assert since(second) == began
            leaves(first)
            assert rows(server) == 2
            assert len(postmasters(server.data)) == 1
            leaves(second)
    until(lambda: not server.running(), "the last one out has stopped it")


@for_root
@pytest.mark.parametrize("by", [MOUNT, CONTAINER], ids=["mount", "container"])
def test_two_containers_on_one_folder_share_one_server(
    by: Sequence[str], folder: Path, binaries: Path, other: Path
) -> None:
    server = Server(folder / "postgres", binaries)
    use = contained(script(USE, other, binaries), folder, other, by)
    with user(use) as first, user(script(USE, folder, binaries)) as outside:
        assert since(outside) == since(first)
        with user(use) as second:
            since(second)
            assert len(postmasters(server.data)) == 1
            leaves(second)
        leaves(outside)
        assert server.running()
        assert (server.data / "postmaster.pid").exists()
        leaves(first)
    until(lambda: not server.running(), "the last one out has stopped it")


@for_root
def test_a_container_that_dies_takes_its_server_and_another_user_goes_on(
    folder: Path, binaries: Path, other: Path
) -> None:
    with user(contained(script(USE, other, binaries), folder, other)) as container:
        since(container)
        with shared.held(folder, binaries) as server:
            process = psutil.Process(container.pid).children()[0]
            process.kill()
            until(lambda: not server.listens(), "the server is gone")
            assert shared.revived(folder)
            assert not shared.revived(folder)
            assert rows(server) == 1
            assert len(postmasters(server.data)) == 1


@for_root
def test_a_server_is_stopped_from_where_its_process_cannot_be_seen(folder: Path, binaries: Path, other: Path) -> None:
    server = Server(folder / "postgres", binaries)
    server.start()
    subprocess.run(contained(script(STOP, other, binaries), folder, other), check=True, timeout=60)
    assert not server.running()
    assert "database system is shut down" in server.log.read_text()


def test_a_long_path_and_another_temporary_folder_lead_to_the_same_socket(
    folder: Path, binaries: Path, other: Path
) -> None:
    deep = folder / ("long" * 20) / "database"
    with user(script(USE, deep, binaries)) as first:
        began = since(first)
        with user(script(USE, deep, binaries), env={**os.environ, "TMPDIR": str(other)}) as second:
            assert since(second) == began
            leaves(second)
        leaves(first)
    Server(deep / "postgres", binaries).socket_directory.unlink()


def test_data_in_use_without_an_answer_are_left_alone(folder: Path, binaries: Path) -> None:
    server = Server(folder / "postgres", binaries)
    server.start()
    server.stop()
    (server.data / "postmaster.pid").write_text(f"{os.getpid()}\n")
    lock = locks.folder(server.data)
    assert lock is not None
    try:
        with pytest.raises(Unavailable, match=r"uses .*/postgres and does not answer .* end it, or wait") as refused:
            server.start(timeout=0.2)
        assert "\n" not in str(refused.value)
        assert (server.data / "postmaster.pid").exists()
    finally:
        os.close(lock)
    server.start()
    assert server.listens()


def test_a_server_started_by_hand_is_used_and_not_started_again(folder: Path, binaries: Path) -> None:
    """A server that was started by hand holds no lock of ours."""
    server = Server(folder / "postgres", binaries)
    server.start()
    server.stop()
    by_hand = ["start", "-D", FOLDER, "-w", "-o", "-h '' -k ."]
    assert server.run("pg_ctl", *by_hand, folder=server.data) is None
    assert not server.start()
    assert server.running()
    (server.data / ".s.PGSQL.5432").unlink()
    with pytest.raises(Unavailable, match=r"does not answer \(process \d+: its socket is closed\)"):
        server.start(timeout=0.2)
    server.stop()
    assert not server.running()


@pytest.mark.parametrize(("name", "refused"), [("another-host", True), (None, False)])
def test_data_that_another_machine_has_not_given_back(
    name: str | None, refused: bool, folder: Path, binaries: Path
) -> None:
    server = Server(folder / "postgres", binaries)
    server.start()
    noted = (server.data / machine.NOTE).read_text().split()
    server.stop()
    (server.data / machine.NOTE).write_text(f"another-boot {name or noted[1]}\n")
    (server.data / "postmaster.pid").write_text("1\n")
    if refused:
        with pytest.raises(Unavailable, match=r"started on another-host .* remove .*postmaster\.pid"):
            server.start()
        (server.data / "postmaster.pid").unlink()
    assert server.start()


def test_a_file_system_without_locks_is_refused(folder: Path) -> None:
    """NFS locks no folder. There is none where these tests run, so the kernel answers as it would on NFS."""
    folder.mkdir()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(no_locks_for_good).result()
        with pytest.raises(Unavailable, match="cannot lock a folder .* BULK_HOME, or set BULK_DATABASE_URL"):
            thread.submit(locks.folder, folder).result()


def test_a_folder_with_other_files_is_refused(folder: Path, binaries: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres" / "letter.txt").write_text("mine")
    with pytest.raises(Unavailable, match="holds other files than a database: move it away"):
        Server(folder / "postgres", binaries).start()


def test_a_lock_that_looks_do_not_disturb(folder: Path) -> None:
    folder.mkdir()
    assert not locks.folder_in_use(folder)
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    assert not locks.folder_in_use(folder)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert locks.folder_in_use(folder)
    os.close(held)
    assert not locks.folder_in_use(folder)


def test_a_killed_server_s_last_processes_are_waited_for(folder: Path, binaries: Path) -> None:
    server = Server(folder / "postgres", binaries)
    server.start()
    process = server.postmaster()
    assert process is not None
    child = next(each for each in process.children() if "checkpointer" in " ".join(each.cmdline()))
    child.send_signal(signal.SIGSTOP)
    process.kill()
    until(lambda: not server.listens(), "nobody listens")
    with pytest.raises(Unavailable, match="does not answer"):
        server.start(timeout=0.2)
    child.send_signal(signal.SIGCONT)
    server.start()
    assert server.listens()
