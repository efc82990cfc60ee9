"""One home, reached by other paths, from other containers, by other users: one server on its data, or a refusal."""

import fcntl
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import locks, machine, owner, shared
from bulk_pipelines.database.embedded.server import FOLDER, Server
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.long

NOBODY = 65534

for_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root, on Linux")

USE = """
import sys
from pathlib import Path
import psycopg
from bulk_pipelines.database.embedded import shared
with shared.held(Path(sys.argv[1]), Path(sys.argv[2])) as server:
    with psycopg.connect(server.url()) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(1)")
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
        print(connection.execute("SELECT pg_postmaster_start_time()::text").fetchone()[0], flush=True)
    sys.stdin.read()
"""

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

MOUNT = ["unshare", "--mount"]
CONTAINER = [*MOUNT, "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--kill-child"]


@pytest.fixture
def folder(binaries: Path) -> Iterator[Path]:
    """A folder that only its owner can enter, by a short path."""
    with TemporaryDirectory(prefix="bulk-place-", dir="/tmp") as name:
        yield Path(name) / "database"
        Server(Path(name) / "database" / "postgres", binaries).stop_immediately()


@pytest.fixture
def other(folder: Path) -> Iterator[Path]:
    """An empty folder on which another one can be mounted."""
    with TemporaryDirectory(prefix="bulk-other-", dir="/tmp") as name:
        yield Path(name)


def script(text: str, folder: Path, binaries: Path) -> list[str]:
    return [sys.executable, "-c", text, str(folder), str(binaries)]


def contained(command: list[str], folder: Path, mounted: Path, by: Sequence[str] = CONTAINER) -> list[str]:
    """The command where it sees the folder as `mounted`, and in a container no process but its own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return [*by, "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(folder), str(mounted), *command]


@contextmanager
def user(command: list[str], **options: object) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def since(process: subprocess.Popen[str]) -> str:
    """When the server that this process uses was started."""
    assert process.stdout is not None
    answer = process.stdout.readline()
    assert answer, "it could not use the server"
    return answer


def rows(server: Server) -> int:
    with pool.single(server.url()) as connection:
        (count,) = connection.execute("SELECT count(*) FROM kept").fetchone() or (0,)
    return int(count)


def postmasters(folder: Path) -> list[psutil.Process]:
    """Every PostgreSQL at home in this folder whose parent is none, wherever it runs."""
    parents = {}
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"].startswith("postgres") and Path(f"/proc/{process.pid}/cwd").samefile(folder):
                parents[process] = process.ppid()
        except (OSError, psutil.Error):
            continue
    pids = {each.pid for each in parents}
    return [process for process, parent in parents.items() if parent not in pids]


def leaves(process: subprocess.Popen[str]) -> None:
    process.communicate("", timeout=60)
    assert process.returncode == 0


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
    """It holds no lock of ours."""
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


def test_a_file_system_without_locks_is_refused(folder: Path, binaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS is, which locks no folder; there is none where these tests run."""

    def refuse(descriptor: int, mode: int) -> bool:
        raise OSError(9, "Bad file descriptor")

    server = Server(folder / "postgres", binaries)
    server.start()
    server.stop()
    monkeypatch.setattr(locks, "taken", refuse)
    with pytest.raises(Unavailable, match="cannot lock a folder .* BULK_HOME, or set BULK_DATABASE_URL"):
        locks.folder(server.data)
    monkeypatch.undo()


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


@for_root
def test_as_root_no_folder_above_the_data_is_changed(folder: Path, binaries: Path) -> None:
    deep = folder / "closed" / "to" / "others" / "database"
    deep.parent.mkdir(parents=True)
    for place in deep.parents:
        if place.is_relative_to(folder):
            place.chmod(0o700)
    before = {place: place.stat() for place in (*deep.parents, *binaries.parents)}
    with shared.held(deep, binaries) as server:
        with pool.single(server.url()) as connection:
            connection.execute("CREATE TABLE many AS SELECT n FROM generate_series(1, 200000) AS n")
            connection.execute("SET debug_parallel_query = on")
            assert connection.execute("SELECT count(*) FROM many").fetchone() == (200000,)
        assert postmasters(server.data)[0].uids().real == pwd.getpwnam(owner.SYSTEM_USER).pw_uid
    for place, found in before.items():
        assert (place.stat().st_mode, place.stat().st_uid) == (found.st_mode, found.st_uid), place


@for_root
def test_as_root_programs_that_only_root_can_reach_are_copied(
    folder: Path, binaries: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = binaries.parent.parent
    closed = folder / "closed"
    for each in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(each, closed / each.name, copy_function=os.link, symlinks=True)
    closed.chmod(0o700)
    other.chmod(0o755)
    monkeypatch.setattr(owner, "COPIES", other / "made" / "here")
    server = Server(folder / "postgres", closed / binaries.relative_to(package.parent))
    server.start()
    assert len(list(owner.COPIES.iterdir())) == 1
    assert closed.stat().st_mode & 0o777 == 0o700
    server.restart()
    assert len(list(owner.COPIES.iterdir())) == 1
    server.stop()
    monkeypatch.setattr(owner, "COPIES", closed / "file" / "x")
    (closed / "file").touch()
    with pytest.raises(Unavailable, match="install into a folder that all users can enter, or do not work as root"):
        server.start()


def closed_above(path: Path) -> Path | None:
    """The uppermost folder on the way to this one that only its owner may enter."""
    return next((each for each in [*reversed(path.parents), path] if not each.stat().st_mode & 0o001), None)


def opening(paths: Sequence[Path], kept: Path) -> str:
    """Commands that let everybody reach these folders, for the processes of a mount namespace only."""
    places = {path: kept / str(number) for number, path in enumerate(paths)}
    closed = dict.fromkeys(found for path in paths if (found := closed_above(path)))
    return " && ".join(
        [
            *(f"mkdir {place} && mount --bind {path} {place}" for path, place in places.items()),
            *(f"mount -t tmpfs -o mode=755 none {each}" for each in closed),
            *(f"mkdir -p {path} && mount --bind {place} {path}" for path, place in places.items()),
        ]
    )


def bulk(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command as the user nobody, to whom Python and the checkout are opened: only for this process."""
    with TemporaryDirectory() as kept:
        opened = opening([Path(sys.base_prefix).resolve(), CHECKOUT], Path(kept))
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return subprocess.run(
            [*("unshare", "--mount", "sh", "-c", f'{opened} && cd {CHECKOUT} && exec "$0" "$@"'),
             *become, sys.executable, "-m", "bulk_pipelines.cli", *arguments],
            env={**os.environ, "BULK_HOME": str(home), "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )  # fmt: skip


@for_root
def test_somebody_else_is_refused_in_one_line(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    folder.parent.chmod(0o755)
    refused = bulk(folder, "status")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"Error: {folder}/database cannot be used (Permission denied)")
    assert "BULK_HOME" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@for_root
@pytest.mark.long
@pytest.mark.parametrize("how", ["somebody else's", "read-only"])
def test_the_doctor_reports_on_a_home_that_cannot_be_written(how: str, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    if how == "read-only":
        mounting = [
            *MOUNT,
            "sh",
            "-c",
            'mount -t tmpfs -o ro none "$1" && exec "$2" -m bulk_pipelines.cli doctor',
            "sh",
        ]
        environment = {**os.environ, "BULK_HOME": str(folder / "home")}
        done = subprocess.run([*mounting, str(folder), sys.executable], env=environment, capture_output=True, text=True)
    else:
        folder.parent.chmod(0o755)
        done = bulk(folder, "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"^ok    packages", done.stdout, re.MULTILINE)
    assert re.search(r"^FAIL  storage: .* cannot be written: (Read-only|Permission)", done.stdout, re.MULTILINE)
    assert re.search(r"^ok    definitions", done.stdout, re.MULTILINE)


@for_root
@pytest.mark.long
def test_root_and_the_owner_of_a_home_share_its_server(folder: Path, binaries: Path) -> None:
    home = folder.parent / "home"
    home.mkdir(mode=0o700)
    folder.parent.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)
    assert bulk(home, "status").stdout == "no jobs yet\n"
    server = Server(home / "database" / "postgres", binaries)
    (server.data / machine.NOTE).unlink()
    with shared.held(home / "database", binaries):
        assert (server.data / machine.NOTE).stat().st_uid == NOBODY
        assert postmasters(server.data)[0].uids().real == NOBODY
        mine = bulk(home, "status")
        assert (mine.returncode, mine.stdout) == (0, "no jobs yet\n"), mine.stderr
    until(lambda: not server.running(), "it has stopped")
    assert bulk(home, "status").returncode == 0


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
