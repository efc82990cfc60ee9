"""What `storage.contract` promises of reading, held against every storage alike, each on a real server."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing, SourceChanged
from bulk_pipelines_tests.scenes.storages import MB, noise


@pytest.mark.parametrize("size", [0, 1, 70_000, 3 * MB, 40 * MB + 17])
def test_what_was_published_is_read_back(storage: Storage, again: Storage, size: int) -> None:
    data = noise(size)
    with storage.publish("a/b.bin") as sink:
        for start in range(0, size, MB + 1):
            sink.write(data[start : start + MB + 1])
    with again.open("a/b.bin") as reader:
        assert reader.entry.size == size
        assert b"".join(reader) == data
    assert again.read("a/b.bin") == data


def test_pieces_stay_small(storage: Storage) -> None:
    storage.put("big", noise(30 * MB))
    with storage.open("big") as reader:
        assert max(len(piece) for piece in reader) <= 8 * MB


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 0), (0, 1), (5, 10), (99_999, 100_000), (99_990, 200_000), (100_000, 100_001), (7, None)]
)
def test_a_range_is_as_a_slice(storage: Storage, start: int, stop: int | None) -> None:
    data = noise(100_000)
    storage.put("file", data)
    assert storage.read("file", start, stop) == data[start:stop]


def test_a_large_range_is_as_a_slice(storage: Storage) -> None:
    data = noise(36 * MB)
    storage.put("file", data)
    assert storage.read("file", 3, 35 * MB + 1) == data[3 : 35 * MB + 1]


def test_a_stream_can_be_left_early(storage: Storage) -> None:
    data = noise(30 * MB)
    storage.put("file", data)
    for _ in range(3):
        with storage.open("file") as reader:
            assert data.startswith(next(iter(reader)))
    assert storage.read("file", 0, 10) == data[:10]


def test_two_streams_at_once(storage: Storage) -> None:
    one, two = noise(3 * MB), noise(3 * MB)
    storage.put("one", one)
    storage.put("two", two)
    with storage.open("one") as first, storage.open("two") as second:
        assert b"".join(second) == two
        assert b"".join(first) == one


def test_threads_share_a_storage(storage: Storage) -> None:
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda n: storage.put(f"t/{n}", b"%d" % n), range(30)))
        assert list(threads.map(lambda n: storage.read(f"t/{n}"), range(30))) == [b"%d" % n for n in range(30)]


def test_stat_tells_size_time_and_version(storage: Storage) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    storage.put("file", b"12345")
    entry = storage.stat("file")
    assert (entry.key, entry.size) == ("file", 5)
    assert entry.modified is not None
    assert before <= entry.modified <= datetime.now(UTC) + timedelta(seconds=2)
    assert entry.version
    assert entry == storage.stat("file")
    assert storage.exists("file")


def test_a_listing_agrees_with_stat(storage: Storage) -> None:
    storage.put("a/file.csv", b"12345")
    [entry] = storage.entries("a/*.csv")
    assert entry.version == storage.stat("a/file.csv").version
    assert (entry.key, entry.size) == ("a/file.csv", 5)


def test_another_content_is_another_version(storage: Storage) -> None:
    storage.put("file", b"12345")
    first = storage.stat("file")
    storage.put("file", b"123456")
    assert storage.stat("file").version != first.version
    with pytest.raises(SourceChanged):
        storage.read("file", version=first.version)
    assert storage.read("file", version=storage.stat("file").version) == b"123456"


@pytest.mark.parametrize("key", ["none", "no/such/folder/none"])
def test_what_is_not_there_is_missing(storage: Storage, key: str) -> None:
    storage.put("other", b"x")
    assert not storage.exists(key)
    for attempt in (storage.stat, storage.read):
        with pytest.raises(Missing, match="none"):
            attempt(key)
    with pytest.raises(Missing):
        storage.move(key, "other")
    assert storage.read("other") == b"x"


def test_a_closed_storage_opens_again(storage: Storage) -> None:
    storage.put("file", b"x")
    storage.close()
    assert storage.read("file") == b"x"
