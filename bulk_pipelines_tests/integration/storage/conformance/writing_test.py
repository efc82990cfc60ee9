"""What `storage.contract` promises of writing: a file is there whole, or not at all."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from bulk_pipelines.errors import Transient
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing, SourceChanged
from bulk_pipelines.storage.ftp.storage import FtpStorage
from bulk_pipelines.storage.sftp.storage import SftpStorage
from bulk_pipelines_tests.scenes.storages import MB, Interruption, everything, names, noise
from bulk_pipelines_tests.scenes.waiting import until


@pytest.mark.parametrize("failure", [ValueError, Interruption])
@pytest.mark.parametrize("size", [0, 10, 20 * MB])
def test_a_failed_write_leaves_nothing(
    storage: Storage, again: Storage, failure: type[BaseException], size: int
) -> None:
    with pytest.raises(failure), storage.publish("folder/file") as sink:
        sink.write(noise(size))
        raise failure
    assert not again.exists("folder/file")
    assert everything(again) == []


def test_a_failed_write_leaves_the_old_file(storage: Storage) -> None:
    storage.put("file", b"old")
    with pytest.raises(ValueError, match="stop"), storage.publish("file") as sink:
        sink.write(noise(18 * MB))
        raise ValueError("stop")
    assert storage.read("file") == b"old"
    assert everything(storage) == ["file"]


def test_nothing_is_seen_before_the_end(storage: Storage, again: Storage) -> None:
    storage.put("file", b"old")
    with storage.publish("file") as sink:
        sink.write(noise(18 * MB))
        assert again.read("file") == b"old"
        assert names(again) == ["file"]
    assert again.stat("file").size == 18 * MB


def test_errors_of_the_writer_stay_what_they_are(storage: Storage) -> None:
    with pytest.raises(FileNotFoundError), storage.publish("file"):
        raise FileNotFoundError("of somebody else")


def test_readers_meanwhile_see_one_whole_file(storage: Storage, again: Storage) -> None:
    """Files of one repeated byte are replaced while they are read: what is read is never a mixture. FTP and SFTP tell
    times to the second: there a version is known again by its length."""
    step = 1 if isinstance(storage, FtpStorage | SftpStorage) else 0
    contents = [b"%d" % n * (MB + n * step) for n in range(9)]
    storage.put("file", contents[0])
    done = threading.Event()

    def write() -> None:
        for each in contents[1:]:
            storage.put("file", each)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()

    def seen() -> bytes | None:
        try:
            return again.read("file")
        except (SourceChanged, Missing, Transient):
            return None  # rclone writes the file in place, and may break the answer to whom reads it

    whole = 0
    while not done.is_set() or not whole:
        if (data := seen()) is not None:
            assert data in contents
            whole += 1
    writer.join()
    until(lambda: seen() == contents[-1], "the last one is read")


def test_unfinished_files_are_swept(storage: Storage) -> None:
    """A killed writer leaves such a file; on S3 there is nothing to see of it."""
    left, other = paths.unfinished("in/file", "0123456789abcdef"), "in/.file.part"
    for name in (left, other):
        storage.put(name, b"half")
    assert names(storage) == []
    now = datetime.now(UTC)
    assert storage.sweep(now - timedelta(hours=1)) == 0
    swept = storage.sweep(now + timedelta(hours=1))
    if not storage.url_of("x").startswith("s3:"):
        assert swept == 1
        assert not storage.exists(left)
    assert storage.exists(other)


def test_unfinished_files_of_one_key_are_swept_alone(storage: Storage) -> None:
    token = "0123456789abcdef"
    mine, others = (
        paths.unfinished("in/file", token),
        [paths.unfinished(f"in/{name}", token) for name in ("file2", "x/file")],
    )
    for name in (mine, *others, "in/file"):
        storage.put(name, b"half")
    later = datetime.now(UTC) + timedelta(hours=1)
    assert storage.sweep(later, of="in/other") == 0
    assert storage.sweep(later, of="elsewhere/file") == 0
    swept = storage.sweep(later, of="in/file")
    if not storage.url_of("x").startswith("s3:"):
        assert swept == 1
        assert not storage.exists(mine)
    assert all(storage.exists(name) for name in (*others, "in/file"))
