"""Compressed sources: which compression it is, and its bytes without it, under limits.

gzip may have several members and zero bytes after them, zstd several frames. A stream that ends too early is an error.
"""

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from bulk_pipelines.storage.errors import BadCompression, OverLimit

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

PIECE = 1 << 20
"""At most this much is unpacked at a time, whatever a bomb would like."""
SLICE = 16 << 10
"""Fed to the unpackers at a time: what follows the end of a member is copied, and there may be very many members."""
HEAD = 6
"""How many of the first bytes tell the compression."""
FRAMES = 10_000
SMALLEST_FRAME = 64
"""After so many zstd frames, this is what they must have in bytes, packed and on average: each costs some 10 µs."""
WINDOW = "too much memory"
"""What zstd says of a window above 128 MiB, which is how much it keeps at hand unless it is told to keep more."""
HARMLESS = 64 << 20
"""Up to this size, no ratio is too high."""


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


OTHERS = {
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf": "7-zip",
    b"\x04\x22\x4d\x18": "lz4",
    b"Rar!": "a rar archive",
}


def recognised(head: bytes) -> Compression:
    """By the first bytes, never by the name."""
    if head.startswith(b"\x1f\x8b\x08"):
        return Compression.GZIP
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return Compression.ZSTD
    return Compression.NONE


def settled(head: bytes, told: Compression | None, shown: str) -> Compression:
    """The compression of a source that begins like this, when it is the one we were told, if we were."""
    found = recognised(head)
    other = next((name for magic, name in OTHERS.items() if head.startswith(magic)), "")
    if other and told is not Compression.NONE:
        raise BadCompression("compression", f"{shown} is {other}; gzip and zstd are what can be unpacked here")
    if head and told is not None and told is not found:
        is_ = "not compressed" if found is Compression.NONE else found
        raise BadCompression("compression", f"{shown} is {is_}, and was said to be {told}")
    return found


def unpacked(pieces: Iterable[bytes], compression: Compression, shown: str) -> Iterator[bytes]:
    """The bytes within, in pieces of limited size."""
    match compression:
        case Compression.NONE:
            return iter(pieces)
        case Compression.GZIP:
            return ungzipped(pieces, shown)
        case Compression.ZSTD:
            return unzstd(pieces, shown)


def ungzipped(pieces: Iterable[bytes], shown: str) -> Iterator[bytes]:
    member = None
    finished = 0
    for piece in sliced(pieces):
        data = piece
        while data or member:
            if member is None:
                data = data.lstrip(b"\0") if finished else data  # padding, as tapes and some tools leave it
                if not data:
                    break
                member = zlib.decompressobj(wbits=31)
            try:
                out = member.decompress(data, PIECE)
            except zlib.error:
                raise damaged("gzip", shown, finished) from None
            if out:
                yield out
            if member.eof:
                data, member, finished = member.unused_data, None, finished + 1
                continue
            data = member.unconsumed_tail
            if not data and len(out) < PIECE:
                break
    if member or not finished:
        raise cut_off("gzip", shown)


def unzstd(pieces: Iterable[bytes], shown: str) -> Iterator[bytes]:
    frame = None
    finished = arrived = 0
    for piece in sliced(pieces):
        data = piece
        arrived += len(piece)
        while data or (frame and not frame.needs_input):
            frame = frame or ZstdDecompressor()
            try:
                out = frame.decompress(data, PIECE)
            except ZstdError as error:
                raise too_long(shown) if WINDOW in str(error) else damaged("zstd", shown, finished) from None
            data = b""
            if out:
                yield out
            if frame.eof:
                data, frame, finished = frame.unused_data, None, finished + 1
                if finished > FRAMES and arrived < finished * SMALLEST_FRAME:
                    raise OverLimit(
                        "source",
                        f"{shown} is cut into very many tiny zstd frames, {finished} of them in its first {arrived} "
                        f"bytes: compress it as a whole",
                    )
    if frame or not finished:
        raise cut_off("zstd", shown)


def sliced(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        for start in range(0, len(piece), SLICE):
            yield piece[start : start + SLICE]


def damaged(name: str, shown: str, finished: int) -> BadCompression:
    where = f"after {finished} whole parts, " if finished else ""
    return BadCompression("source", f"{shown}: {where}the {name} data is damaged")


def too_long(shown: str) -> OverLimit:
    remedy = "compress it again with --long=27, or without --long"
    return OverLimit("source", f"{shown} was compressed with a window above 128 MiB, the most that is kept: {remedy}")


def cut_off(name: str, shown: str) -> BadCompression:
    return BadCompression("source", f"{shown} is cut off: the {name} data ends before its end")


def limited(
    pieces: Iterable[bytes], largest: int, ratio: float | None, arrived: Callable[[], int], shown: str
) -> Iterator[bytes]:
    """The same pieces, until they are more than they may be: in all, or for what has `arrived` of the source."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > largest:
            raise OverLimit("source", f"{shown} holds more than {largest} bytes, see BULK_LANDING_MAX_BYTES")
        if ratio is not None and size > HARMLESS and size > ratio * arrived():
            raise OverLimit(
                "source", f"{shown} unpacks to more than {ratio:g} times its size, see BULK_LANDING_MAX_RATIO"
            )
        yield piece
