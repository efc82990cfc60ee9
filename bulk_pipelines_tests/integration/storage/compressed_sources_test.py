"""Landing compressed sources: each compression is recognised and unpacked, and bombs are stopped early."""

import bz2
import gzip
import io
import lzma
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.compression import HARMLESS, Compression
from bulk_pipelines.storage.contract import Sink
from bulk_pipelines.storage.errors import BadCompression, OverLimit
from bulk_pipelines.storage.landing import Limits, land
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.landed import MB, ROWS, landed_bytes, nothing_left, sha256, written


def members(data: bytes) -> bytes:
    return gzip.compress(data[:1000]) + gzip.compress(b"") + gzip.compress(data[1000:])


def frames(data: bytes) -> bytes:
    return zstd.compress(data[:1000]) + b"\x50\x2a\x4d\x18\x03\0\0\0skp" + zstd.compress(data[1000:])


@pytest.mark.parametrize(
    ("compress", "kind"),
    [
        (gzip.compress, Compression.GZIP),
        (members, Compression.GZIP),
        (lambda data: members(data) + b"\0" * 512, Compression.GZIP),
        (zstd.compress, Compression.ZSTD),
        (frames, Compression.ZSTD),
        (lambda data: b"\x5f\x2a\x4d\x18\x00\0\0\0" + zstd.compress(data), Compression.ZSTD),
    ],
    ids=["gzip", "gzip members", "gzip padded", "zstd", "zstd frames", "zstd skippable first"],
)
@pytest.mark.parametrize("told", [True, False])
def test_compressions(
    into: LocalStorage, tmp_path: Path, compress: Callable[[bytes], bytes], kind: Compression, told: bool
) -> None:
    landed = land(written(tmp_path, compress(ROWS)), into, "J1/0", Access(), compression=kind if told else None)
    assert landed_bytes(landed) == ROWS
    assert landed.compression is kind
    assert landed.sha256 == sha256(ROWS)


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("users.csv", data)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "told", "message"),
    [
        (lambda: ROWS, Compression.GZIP, "is not compressed, and was said to be gzip"),
        (lambda: ROWS, Compression.ZSTD, "is not compressed, and was said to be zstd"),
        (lambda: gzip.compress(ROWS), Compression.ZSTD, "is gzip, and was said to be zstd"),
        (lambda: zstd.compress(ROWS), Compression.NONE, "is zstd, and was said to be none"),
        (lambda: zipped(ROWS), Compression.GZIP, "is not compressed, and was said to be gzip"),
        (lambda: b"7z\xbc\xaf\x27\x1c", None, "is 7-zip; gzip, zstd, bzip2, xz and zip are what can be unpacked"),
        (lambda: bz2.compress(ROWS), Compression.XZ, "is bzip2, and was said to be xz"),
        (lambda: bz2.compress(ROWS)[:-1], None, "cut off"),
        (lambda: bz2.compress(ROWS) + b"garbage", None, "after 1 whole parts, the bzip2 data is damaged"),
        (lambda: lzma.compress(ROWS)[:-1], None, "cut off"),
        (lambda: lzma.compress(ROWS) + b"garbage" * 3, None, "after 1 whole parts, the xz data is damaged"),
        (lambda: gzip.compress(ROWS)[:-9], None, "cut off"),
        (lambda: gzip.compress(ROWS)[:5000], None, "cut off"),
        (lambda: gzip.compress(ROWS)[:10], None, "cut off"),
        (lambda: gzip.compress(ROWS) + gzip.compress(ROWS)[:30], None, "cut off"),
        (lambda: zstd.compress(ROWS)[:-1], None, "cut off"),
        (lambda: zstd.compress(ROWS)[:5], None, "cut off"),
        (lambda: gzip.compress(ROWS) + b"garbage", None, "after 1 whole parts, the gzip data is damaged"),
        (lambda: zstd.compress(ROWS) + b"garbage", None, "after 1 whole parts, the zstd data is damaged"),
        (lambda: gzip.compress(ROWS)[:3000] + b"\xff" * 3000 + gzip.compress(ROWS)[6000:], None, "damaged"),
        (lambda: gzip.compress(ROWS)[:-8] + b"\0" * 8, None, "damaged"),
    ],
    ids=lambda value: "data" if callable(value) else None,
)
def test_wrong_compressions(
    into: LocalStorage, tmp_path: Path, data: Callable[[], bytes], told: Compression | None, message: str
) -> None:
    with pytest.raises(BadCompression, match=message):
        land(written(tmp_path, data()), into, "J1/0", Access(), compression=told)
    assert nothing_left(into)


def bomb(compressor: Any, megabytes: int) -> bytes:
    return b"".join([*(compressor.compress(b"\0" * MB) for _ in range(megabytes)), compressor.flush()])


@pytest.mark.parametrize(
    "compressor", [zlib.compressobj(9, wbits=31), zstd.ZstdCompressor(level=3)], ids=["gzip", "zstd"]
)
def test_a_bomb_is_stopped_early(tmp_path: Path, compressor: Any) -> None:
    url = written(tmp_path, bomb(compressor, 600))
    assert Path(url).stat().st_size < MB
    into = RecordingStorage(tmp_path / "landed")
    with pytest.raises(OverLimit, match="unpacks to more than 100 times its size"):
        land(url, into, "J1/0", Access(), Limits(ratio=100.0))
    assert into.written <= HARMLESS + MB
    assert nothing_left(into)


class RecordingStorage(LocalStorage):
    """Remembers how much was written, whatever became of it."""

    written = 0

    @contextmanager
    def publish(self, key: str) -> Iterator[Sink]:
        with super().publish(key) as sink:
            try:
                yield sink
            finally:
                self.written = sink.size


def test_a_bomb_within_a_high_ratio_still_meets_the_size_limit(into: LocalStorage, tmp_path: Path) -> None:
    url = written(tmp_path, bomb(zlib.compressobj(9, wbits=31), 100))
    with pytest.raises(OverLimit, match="holds more than 10485760 bytes"):
        land(url, into, "J1/0", Access(), Limits(largest=10 * MB, ratio=1e9))
    assert nothing_left(into)


def test_very_many_tiny_members_take_no_undue_time(into: LocalStorage, tmp_path: Path) -> None:
    url = written(tmp_path, gzip.compress(b"") * 200_000)
    began = time.monotonic()
    assert land(url, into, "J1/0", Access()).bytes == 0
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("content", [b"", b"1\n"])
def test_very_many_tiny_frames_are_refused_early(into: LocalStorage, tmp_path: Path, content: bytes) -> None:
    url = written(tmp_path, zstd.compress(content) * 500_000)
    began = time.process_time()
    with pytest.raises(OverLimit, match=r"very many tiny zstd frames, 10001 of them .*: compress it as a whole"):
        land(url, into, "J1/0", Access())
    assert time.process_time() - began < 2
    assert nothing_left(into)


def test_very_many_small_records_in_frames_of_their_own(into: LocalStorage, tmp_path: Path) -> None:
    records = [
        f'{{"id": "{number:08}", "email": "reader{number}@example.org", "name": "Reader"}}\n'
        for number in range(20_000)
    ]
    landed = land(written(tmp_path, b"".join(zstd.compress(each.encode()) for each in records)), into, "J1/0", Access())
    assert landed_bytes(landed) == "".join(records).encode()


@pytest.mark.parametrize(("log", "fits"), [(27, True), (28, False), (31, False)])
def test_a_long_window(into: LocalStorage, tmp_path: Path, log: int, fits: bool) -> None:
    """What zstd itself unpacks without being told to, `--long=27`, is unpacked; above, it is no damage."""
    compressor = zstd.ZstdCompressor(options={int(zstd.CompressionParameter.window_log): log})
    url = written(tmp_path, compressor.compress(ROWS) + compressor.flush())
    if fits:
        assert landed_bytes(land(url, into, "J1/0", Access())) == ROWS
        return
    with pytest.raises(OverLimit, match=r"a window above 128 MiB, .*: compress it again with --long=27"):
        land(url, into, "J1/0", Access())
    assert nothing_left(into)


def test_a_small_file_of_high_ratio_is_harmless(into: LocalStorage, tmp_path: Path) -> None:
    landed = land(written(tmp_path, gzip.compress(b"a" * 30 * MB, 9)), into, "J1/0", Access(), Limits(ratio=2.0))
    assert landed.bytes == 30 * MB
