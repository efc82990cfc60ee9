"""Unpacking compressed sources under limits, and recognising their compression.

gzip may have several members and zero bytes after them, zstd several frames, bzip2 and xz several streams. A stream
that ends too early is an error. Archives hold files, so they are opened where files are planned.
"""

import bz2
import lzma
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
"""How many bytes are unpacked at a time, at most, even if the file is a decompression bomb."""
SLICE = 16 << 10
"""How many bytes are fed to the unpackers at a time. They copy what follows the end of a member, and a file may have
very many members."""
HEAD = 6
"""How many of the first bytes tell the compression."""
FRAMES = 10_000
SMALLEST_FRAME = 64
"""The least packed bytes of a zstd frame, on average, after `FRAMES` of them, because each frame costs some 10 µs."""
WINDOW = "too much memory"
"""Words in zstd's error about a window above 128 MiB, the most that it keeps in memory unless it is told to keep more.
"""
MOST_MEMORY = 128 << 20
"""How much memory unpacking xz may take: a bit more than what `xz -9` needs."""
HARMLESS = 64 << 20
"""Up to this many unpacked bytes, no ratio is too high."""


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"
    BZIP2 = "bzip2"
    XZ = "xz"


KNOWN = "gzip, zstd, bzip2, xz and zip"
OTHERS = {
    b"7z\xbc\xaf": "7-zip",
    b"\x04\x22\x4d\x18": "lz4",
    b"Rar!": "a rar archive",
}


def recognised(head: bytes) -> Compression:
    """Recognise the compression by a file's first bytes, never by its name."""
    if head.startswith(b"\x1f\x8b\x08"):
        return Compression.GZIP
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return Compression.ZSTD
    if head.startswith(b"BZh") and head[3:4] in b"123456789":
        return Compression.BZIP2
    if head.startswith(b"\xfd7zXZ\x00"):
        return Compression.XZ
    return Compression.NONE


def decided(head: bytes, told: Compression | None, shown: str) -> Compression:
    """Return the compression of a source that begins with these bytes. Raise `BadCompression` if it is another one than
    `told`, or one that cannot be unpacked here."""
    found = recognised(head)
    other = next((name for magic, name in OTHERS.items() if head.startswith(magic)), "")
    if other and told is not Compression.NONE:
        raise BadCompression("compression", f"{shown} is {other}; {KNOWN} are what can be unpacked here")
    if head and told is not None and told is not found:
        is_ = "not compressed" if found is Compression.NONE else found
        raise BadCompression("compression", f"{shown} is {is_}, and was said to be {told}")
    return found


def unpacked(pieces: Iterable[bytes], compression: Compression, shown: str) -> Iterator[bytes]:
    """Return an iterator over the unpacked bytes, in pieces of limited size."""
    match compression:
        case Compression.NONE:
            return iter(pieces)
        case Compression.GZIP:
            return ungzipped(pieces, shown)
        case Compression.ZSTD:
            return unzstd(pieces, shown)
        case Compression.BZIP2:
            return unstreamed(pieces, "bzip2", bz2.BZ2Decompressor, shown)
        case Compression.XZ:
            return unstreamed(pieces, "xz", limited_lzma, shown)


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
                    raise tiny("zstd", shown, finished, arrived)
    if frame or not finished:
        raise cut_off("zstd", shown)


def limited_lzma() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)


def unstreamed(
    pieces: Iterable[bytes],
    name: str,
    begin: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor],
    shown: str,
) -> Iterator[bytes]:
    """Unpack bzip2 or xz, whose streams may stand one behind the other. xz may have zero bytes behind a stream."""
    stream = None
    finished = arrived = 0
    for piece in sliced(pieces):
        data = piece
        arrived += len(piece)
        while data or (stream and not stream.needs_input):
            if stream is None and not (data := data.lstrip(b"\0") if finished else data):
                break
            stream = stream or begin()
            try:
                out = stream.decompress(data, PIECE)
            except (lzma.LZMAError, OSError, EOFError, ValueError) as error:
                raise too_long_xz(shown) if "limit" in str(error).lower() else damaged(name, shown, finished) from None
            data = b""
            if out:
                yield out
            if stream.eof:
                data, stream, finished = stream.unused_data, None, finished + 1
                if finished > FRAMES and arrived < finished * SMALLEST_FRAME:
                    raise tiny(name, shown, finished, arrived)
    if stream or not finished:
        raise cut_off(name, shown)


def tiny(name: str, shown: str, finished: int, arrived: int) -> OverLimit:
    return OverLimit(
        "source",
        f"{shown} is cut into very many tiny {name} frames, {finished} of them in its first {arrived} bytes: compress"
        " it as a whole",
    )


def too_long_xz(shown: str) -> OverLimit:
    return OverLimit(
        "source",
        f"{shown} needs more than {MOST_MEMORY >> 20} MiB of memory to be unpacked: compress it with xz -9 or less",
    )


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
    """Yield the same pieces, and raise `OverLimit` once they are too many bytes: more than `largest`, or more than
    `ratio` times the bytes of the source that have `arrived`."""
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
