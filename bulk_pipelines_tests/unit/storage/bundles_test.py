"""Bundles are zip archives that any program can open, and the same for the same files."""

import io
import zipfile
from collections.abc import Iterator

import pytest

from bulk_pipelines.storage import bundles

FILES = {"jan/users.csv": b"a\n1\n", "feb/üsers.csv": b"", "feb/large.bin": b"x" * 3_000_000}


def packed(files: dict[str, bytes]) -> bytes:
    return b"".join(bundles.packed((name, pieces(data)) for name, data in files.items()))


def pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 1 << 20):
        yield data[start : start + (1 << 20)]


@pytest.mark.parametrize("files", [FILES, {}, {"a": b"x"}], ids=["many", "none", "one"])
def test_a_bundle_is_a_zip_of_the_length_that_was_told(files: dict[str, bytes]) -> None:
    data = packed(files)
    assert len(data) == bundles.length((name, len(content)) for name, content in files.items())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {each.filename: archive.read(each) for each in archive.infolist()} == files
        assert archive.namelist() == list(files)
        assert archive.comment == bundles.MARK


def test_files_of_the_same_name_keep_their_places() -> None:
    data = b"".join(bundles.packed([("a", [b"1"]), ("a", [b"2"])]))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert [archive.read(each) for each in archive.infolist()] == [b"1", b"2"]


def test_the_same_files_are_the_same_bundle_however_they_are_read() -> None:
    whole = b"".join(bundles.packed((name, [data]) for name, data in FILES.items()))
    assert whole == packed(FILES)
    assert packed(FILES) != packed(dict(reversed(FILES.items())))


def test_a_name_that_is_no_text_is_packed_all_the_same() -> None:
    data = packed({"us\udcffers.csv": b"x"})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["us?ers.csv"]
    assert len(data) == bundles.length([("us\udcffers.csv", 1)])
