"""What only a local folder has: links, pipes, permissions, full disks, killed writers."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage.errors import Full, Missing, Refused, UnsafePath
from bulk_pipelines.storage.local.storage import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    (tmp_path / "root").mkdir()
    return LocalStorage(tmp_path / "root")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    return tmp_path / "outside"


def test_links_may_not_lead_out(storage: LocalStorage, outside: Path) -> None:
    (storage.root / "link").symlink_to(outside / "secret")
    (storage.root / "folder").symlink_to(outside)
    for key in ("link", "folder/secret"):
        for attempt in (storage.stat, storage.read):
            with pytest.raises(UnsafePath, match="leads out"):
                attempt(key)
    with pytest.raises(UnsafePath):
        storage.put("folder/new", b"x")
    with pytest.raises(UnsafePath):
        storage.delete("folder/secret")
    with pytest.raises(UnsafePath):
        storage.move("folder/secret", "here")
    storage.put("mine", b"x")
    with pytest.raises(UnsafePath):
        storage.move("mine", "folder/there")
    assert [entry.key for entry in storage.entries()] == ["mine"]
    assert [each.name for each in outside.iterdir()] == ["secret"]


def test_a_link_is_replaced_and_removed_itself(storage: LocalStorage, outside: Path) -> None:
    (storage.root / "link").symlink_to(outside / "secret")
    storage.put("link", b"mine")
    assert storage.read("link") == b"mine"
    (storage.root / "other").symlink_to(outside / "secret")
    storage.delete("other")
    assert (outside / "secret").read_bytes() == b"secret"


def test_links_within_are_fine(storage: LocalStorage) -> None:
    storage.put("real", b"data")
    (storage.root / "link").symlink_to(storage.root / "real")
    assert storage.read("link") == b"data"
    assert sorted(entry.key for entry in storage.entries()) == ["link", "real"]


def test_links_in_circles(storage: LocalStorage) -> None:
    (storage.root / "a").symlink_to(storage.root / "b")
    (storage.root / "b").symlink_to(storage.root / "a")
    (storage.root / "up").symlink_to(storage.root)
    with pytest.raises(Permanent, match="symbolic links"):
        storage.read("a")
    assert list(storage.entries()) == []


def test_the_root_may_be_a_link(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put("in/file", b"data")
    (tmp_path / "alias").symlink_to(storage.root)
    alias = LocalStorage(tmp_path / "alias")
    assert alias.read("in/file") == b"data"
    assert [entry.key for entry in alias.entries()] == ["in/file"]


def test_what_is_no_file(storage: LocalStorage, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(storage.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(storage.root / "socket"))
        with pytest.raises(Permanent, match="not a file"):
            storage.read("pipe")
        with pytest.raises(Permanent):
            storage.read("socket")
        (storage.root / os.fsdecode(b"not \xff utf-8")).write_bytes(b"x")
        (storage.root / "back\\slash").write_bytes(b"x")
        (storage.root / "new\nline").mkdir()
        storage.put("file", b"x")
        assert [entry.key for entry in storage.entries()] == ["file"]
    assert len(caplog.records) == 3
    assert all(record.message.isprintable() for record in caplog.records)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no file system that takes any time")
@pytest.mark.parametrize("seconds", [1 << 40, -(1 << 40)])
def test_a_time_that_no_calendar_has(seconds: int) -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        storage = LocalStorage(Path(folder))
        storage.put("a", b"x")
        os.utime(Path(folder) / "a", (0, seconds))
        storage.put("b", b"x")
        found = {entry.key: entry for entry in storage.entries()}
        assert set(found) == {"a", "b"}
        assert found["a"] == storage.stat("a")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "none")
    with pytest.raises(Missing, match="none does not exist"):
        list(storage.entries())
    storage.put("a/b", b"made")
    assert [entry.key for entry in storage.entries()] == ["a/b"]


def test_a_file_where_a_folder_should_be(storage: LocalStorage) -> None:
    storage.put("a", b"x")
    with pytest.raises(Permanent):
        storage.put("a/b", b"x")
    with pytest.raises(Permanent, match="is a file, not a folder"):
        list(LocalStorage(storage.root / "a").entries())
    storage.put("folder/x", b"x")
    with pytest.raises(Permanent, match="folder"):
        storage.put("folder", b"x")
    with pytest.raises(Permanent, match="folder"):
        storage.delete("folder")
    assert sorted(entry.key for entry in storage.entries()) == ["a", "folder/x"]
    assert storage.sweep(datetime.now(UTC) + timedelta(days=1)) == 0


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Stands for a disk that runs full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [100_001, 5_000_000])
def test_a_disk_that_runs_full(storage: LocalStorage, size: int) -> None:
    """Found when a piece is written, or only when the last of them is brought to the disk."""
    storage.put("file", b"old")
    with no_file_larger_than(100_000), pytest.raises(Full, match="file"), storage.publish("file") as sink:
        sink.write(b"x" * size)
    assert storage.read("file") == b"old"
    assert [each.name for each in storage.root.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(storage: LocalStorage) -> None:
    storage.root.chmod(0o500)
    with pytest.raises(Refused):
        storage.put("file", b"x")


def test_a_system_folder_refuses() -> None:
    with pytest.raises((Refused, Permanent)):
        LocalStorage(Path("/proc/self")).put("file", b"x")


WRITER = """
import sys, time
from pathlib import Path
from bulk_pipelines.storage.local.storage import LocalStorage

with LocalStorage(Path(sys.argv[1])).publish("in/file") as sink:
    sink.write(b"x" * 5_000_000)
    print("half", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_only_what_is_swept(storage: LocalStorage) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, storage.root], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    assert list(storage.entries()) == []
    assert storage.sweep(datetime.now(UTC) - timedelta(hours=1)) == 0
    assert storage.sweep(datetime.now(UTC) + timedelta(hours=1)) == 1
    assert list((storage.root / "in").iterdir()) == []


def test_files_that_come_and_go_while_they_are_listed(storage: LocalStorage) -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for n in range(20):
                storage.put(f"a/{n}/file", b"x")
            for n in range(20):
                (storage.root / f"a/{n}/file").unlink(missing_ok=True)
                (storage.root / f"a/{n}").rmdir()

    storage.put("stays", b"x")
    churner = threading.Thread(target=churn)
    churner.start()
    try:
        for _ in range(60):
            assert "stays" in {entry.key for entry in storage.entries()}
    finally:
        stop.set()
        churner.join()
