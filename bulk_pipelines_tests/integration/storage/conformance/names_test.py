"""What `storage.contract` promises of names: patterns, unusual names, and that none leaves the folder."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage import locations, paths
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import UnsafePath
from bulk_pipelines_tests.scenes.storages import everything, names, remote_login, storage_has_file
from bulk_pipelines_tests.servers.processes import Place


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**", ["1.csv", "a/1.csv", "a/b/1.csv", "a/b/2.txt", "c/1.csv"]),
        ("*", ["1.csv"]),
        ("*.csv", ["1.csv"]),
        ("**/*.csv", ["1.csv", "a/1.csv", "a/b/1.csv", "c/1.csv"]),
        ("a/*", ["a/1.csv"]),
        ("a/**", ["a/1.csv", "a/b/1.csv", "a/b/2.txt"]),
        ("*/1.csv", ["a/1.csv", "c/1.csv"]),
        ("[!a]/?.csv", ["c/1.csv"]),
        ("nowhere/*", []),
    ],
)
def test_patterns(storage: Storage, pattern: str, expected: list[str]) -> None:
    for name in ("1.csv", "a/1.csv", "a/b/1.csv", "a/b/2.txt", "c/1.csv", ".hidden", "a/.hidden.csv"):
        storage.put(name, b"x")
    assert names(storage, pattern) == expected


def test_a_folder_next_to_one_of_the_same_beginning(storage: Storage) -> None:
    for name in ("drop/1.csv", "drops/2.csv", "drop.csv"):
        storage.put(name, b"x")
    assert names(storage, "drop/*") == ["drop/1.csv"]


def test_thousands_of_files_come_page_by_page(storage: Storage) -> None:
    expected = [f"in/{n:04}" for n in range(2100 if not remote_login(storage) else 400)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: storage.put(name, b"x"), [*expected, "in/sub/1", "in/sub/2", "zzz"]))
    assert names(storage, "in/*") == expected


@pytest.mark.parametrize(
    "name",
    ["ü ñ – 漢字.csv", "a b+c&d=e%20f#g?h.csv", "it's (1) [2] {3} ~!$,;@^.csv", "-rf", "*.csv", "file:x", "x" * 200],
)
def test_unusual_names(storage: Storage, name: str) -> None:
    storage.put(f"in/{name}", b"content")
    assert storage.read(f"in/{name}") == b"content"
    assert names(storage) == [f"in/{name}"]
    assert names(storage, paths.escape(f"in/{name}")) == [f"in/{name}"]
    storage.move(f"in/{name}", f"done/{name}")
    assert names(storage) == [f"done/{name}"]
    storage.delete(f"done/{name}")
    assert names(storage) == []


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../up",
        "a/../../up",
        "a/./b",
        "a//b",
        "a/",
        "a\\b",
        "..\\up",
        "nul\0",
        "new\nline",
        "x" * 256,
    ],
)
def test_no_name_leaves_the_folder(storage: Storage, key: str) -> None:
    attempts = (storage.stat, storage.read, storage.delete, storage.exists, lambda key: storage.put(key, b"x"))
    for attempt in attempts:
        with pytest.raises(UnsafePath):
            attempt(key)
    storage.put("file", b"x")
    with pytest.raises(UnsafePath):
        storage.move("file", key)
    with pytest.raises(UnsafePath):
        storage.move(key, "file")
    with pytest.raises(UnsafePath), storage.publish(key):
        pass
    assert everything(storage) == ["file"]


def test_a_folder_is_not_a_file(storage: Storage) -> None:
    storage.put("folder/file", b"x")
    assert not storage_has_file(storage, "folder")
    with pytest.raises(Permanent):
        storage.read("folder")


def test_an_address_leads_back(place: Place, storage: Storage) -> None:
    storage.put("in/a b%20ü.csv", b"content")
    again, key = locations.file(storage.url_of("in/a b%20ü.csv"), place.access)
    with again:
        assert again.read(key) == b"content"
