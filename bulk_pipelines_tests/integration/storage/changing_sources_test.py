"""Sources that change or go away while they are landed: they land whole, in one version, or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bulk_pipelines.errors import Failure
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.errors import SourceChanged
from bulk_pipelines.storage.landing import land
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.landed import MB, landed_bytes, nothing_left, written
from bulk_pipelines_tests.servers.processes import LoginServer, Place


def rewrite(path: Path) -> None:
    path.write_bytes(b"y" * 3 * MB)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shrink(path: Path) -> None:
    os.truncate(path, MB + 5)


def replace_by_same_size(path: Path) -> None:
    (path.parent / "new").write_bytes(b"z" * 3 * MB)
    (path.parent / "new").replace(path)


CHANGES = [rewrite, grow, shrink, Path.unlink, replace_by_same_size]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_read(
    into: LocalStorage, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    url = written(tmp_path, b"x" * 3 * MB)
    changes = iter([change])

    def meanwhile(arrived: int) -> None:
        for each in changes:
            each(Path(url))

    with pytest.raises(SourceChanged, match="source"):
        land(url, into, "J1/0", Access(), progress=meanwhile)
    assert nothing_left(into)


@pytest.mark.parametrize("change", [grow, shrink, Path.unlink])
def test_a_file_on_ftp_that_changes_while_it_is_read(
    into: LocalStorage, plain_ftp_server: LoginServer, change: Callable[[Path], None]
) -> None:
    place = plain_ftp_server.place()
    path = plain_ftp_server.folder / place.url.rpartition("/")[2] / "source"
    path.write_bytes(b"x" * 30 * MB)
    changes = iter([change])

    def meanwhile(arrived: int) -> None:
        for each in changes:
            each(path)

    with pytest.raises(Failure, match="source") as caught:
        land(f"{place.url}/source", into, "J1/0", place.access, progress=meanwhile)
    assert caught.value.error_class == "transient"
    assert nothing_left(into)


@pytest.mark.parametrize("change", ["replace", "delete"])
def test_an_object_that_changes_while_it_is_read(into: LocalStorage, s3_bucket: Place, change: str) -> None:
    storage = locations.folder(s3_bucket.url, s3_bucket.access)
    storage.put("source", b"x" * 40 * MB)
    changes = iter([change])

    def meanwhile(arrived: int) -> None:
        for each in changes:
            storage.delete("source") if each == "delete" else storage.put("source", b"y" * 40 * MB)

    try:
        landed = land(f"{s3_bucket.url}/source", into, "J1/0", s3_bucket.access, progress=meanwhile)
    except SourceChanged:
        assert nothing_left(into)
    else:  # all of it was already on its way: then it is the old version, whole
        assert landed_bytes(landed) == b"x" * 40 * MB
