"""Compressed data, cut anywhere into pieces of any size, is unpacked to what it was; cut short, it never passes."""

import gzip
import zlib
from collections.abc import Callable, Iterator

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.storage.compression import HEAD, PIECE, Compression, decided, recognised, unpacked
from bulk_pipelines.storage.errors import BadCompression

DATA = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda piece, times: piece * times, st.binary(min_size=1, max_size=20), st.integers(0, 200_000)),
)
COMPRESS: dict[Compression, Callable[[bytes, int], bytes]] = {
    Compression.GZIP: gzip.compress,
    Compression.ZSTD: zstd.compress,
}
KINDS = st.sampled_from([Compression.GZIP, Compression.ZSTD])


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Pieces of these sizes, over and over."""
    position, turn = 0, 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        yield data[position : position + size]
        position, turn = position + size, turn + 1


@given(
    KINDS,
    st.lists(DATA, min_size=1, max_size=4),
    st.integers(1, 9),
    st.lists(st.integers(1, 70_000), min_size=1, max_size=5),
)
def test_cut_anywhere(kind: Compression, parts: list[bytes], level: int, sizes: list[int]) -> None:
    packed = b"".join(COMPRESS[kind](part, level) for part in parts)
    assert recognised(packed[:HEAD]) is kind
    pieces = list(unpacked(cut(packed, sizes), kind, "source"))
    assert b"".join(pieces) == b"".join(parts)
    assert max(map(len, pieces), default=0) <= PIECE


@given(KINDS, DATA, st.data())
def test_cut_short(kind: Compression, data: bytes, choose: st.DataObject) -> None:
    packed = COMPRESS[kind](data, 3)
    short = packed[: choose.draw(st.integers(1, len(packed) - 1))]
    with pytest.raises(BadCompression, match="cut off"):
        list(unpacked(cut(short, [1000]), kind, "source"))


@given(st.binary(min_size=1, max_size=2000), st.integers(0, 5000), st.integers(0, 255))
def test_a_changed_byte_never_passes_as_other_data(data: bytes, position: int, byte: int) -> None:
    packed = bytearray(gzip.compress(data, mtime=0))
    position %= len(packed)
    if packed[position] == byte:
        return
    packed[position] = byte
    try:
        out = b"".join(unpacked([bytes(packed)], Compression.GZIP, "source"))
    except BadCompression:
        return
    assert out == data  # fields of the header that say nothing of the data


@given(st.binary(max_size=50))
def test_anything_at_all_is_recognised_or_refused(head: bytes) -> None:
    for told in (None, *Compression):
        try:
            kind = decided(head[:HEAD], told, "source")
        except BadCompression:
            continue
        assert kind is recognised(head[:HEAD])


@given(st.binary(max_size=200), KINDS)
def test_random_bytes_end_in_an_error_or_in_data(data: bytes, kind: Compression) -> None:
    try:
        list(unpacked([data], kind, "source"))
    except BadCompression as error:
        assert str(error)  # noqa: PT017


def test_output_that_outlasts_the_input() -> None:
    """The last few bytes of input can stand for much output."""
    data = b"\0" * (5 * PIECE + 123)
    packed = zlib.compress(data, 9, wbits=31)
    for kind, whole in ((Compression.GZIP, packed), (Compression.ZSTD, zstd.compress(data, 19))):
        pieces = list(unpacked(cut(whole, [7]), kind, "source"))
        assert b"".join(pieces) == data
        assert max(map(len, pieces)) <= PIECE
