"""Links that are put in the place of a file or a folder between two steps of a storage lead nowhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage.errors import SourceChanged
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.opening import before_opening

SECRET = b"email,name\nsecret@example.org,Secret\n"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """A folder with a file in a folder, and beside it a place of the same shape that is none of its affair."""
    for folder in ("inbox", "outside"):
        (tmp_path / folder / "in").mkdir(parents=True)
    for path in (tmp_path / "outside" / "in" / "file", tmp_path / "outside" / "file"):
        path.write_bytes(SECRET)
    made = LocalStorage(tmp_path / "inbox")
    made.put("in/file", b"x" * len(SECRET))
    return made


def swap_file(storage: LocalStorage) -> None:
    (storage.root / "in" / "file").unlink()
    (storage.root / "in" / "file").symlink_to(storage.root.parent / "outside" / "in" / "file")


def swap_folder(storage: LocalStorage) -> None:
    (storage.root / "in").rename(storage.root / "before")
    (storage.root / "in").symlink_to(storage.root.parent / "outside" / "in")


ATTEMPTS: dict[str, Callable[[LocalStorage], object]] = {
    "stat": lambda storage: storage.stat("in/file"),
    "read": lambda storage: storage.read("in/file"),
    "delete": lambda storage: storage.delete("in/file"),
    "move away": lambda storage: storage.move("in/file", "moved"),
    "move here": lambda storage: storage.move("other", "in/file"),
    "publish": lambda storage: storage.put("in/file", b"mine"),
}


@pytest.mark.parametrize("swap", [swap_file, swap_folder])
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_link_that_comes_after_the_path_was_looked_at(
    storage: LocalStorage, attempt: str, swap: Callable[[LocalStorage], None]
) -> None:
    storage.put("other", b"other")
    outside = storage.root.parent / "outside"
    before = listing(outside)
    with before_opening("in", lambda: swap(storage)):
        try:
            came = ATTEMPTS[attempt](storage)
        except Permanent:
            came = None
    assert came != SECRET
    assert listing(outside) == before


@pytest.mark.parametrize("swap", [swap_file, swap_folder])
def test_a_link_that_comes_when_the_folder_is_open(storage: LocalStorage, swap: Callable[[LocalStorage], None]) -> None:
    """The file that was there is read, or none."""
    with before_opening("file", lambda: swap(storage)):
        try:
            came = storage.read("in/file")
        except (Permanent, SourceChanged):
            came = None
    assert came in (None, b"x" * len(SECRET))


def test_folders_on_the_way_are_made_and_no_descriptor_is_left(storage: LocalStorage) -> None:
    storage.put("a/b/c/file", b"deep")
    storage.move("a/b/c/file", "d/e/file")
    assert storage.read("d/e/file") == b"deep"
    with pytest.raises(Permanent):
        storage.read("a/none/file")
    held = [each for each in Path("/proc/self/fd").iterdir() if leads_to(each).is_relative_to(storage.root)]
    assert held == []


def leads_to(descriptor: Path) -> Path:
    """Return what a descriptor is open for. Other tests of this process close theirs whenever they like."""
    try:
        return descriptor.readlink()
    except FileNotFoundError:
        return Path()


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
