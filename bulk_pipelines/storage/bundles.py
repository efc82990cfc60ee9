"""Bundles: several files as one stream, a zip that is made while it is sent. Nothing in it is compressed, and it
depends on nothing but names and bytes, so the same files are the same bundle. Its comment tells it from other archives:
the files are meant in this order, and each as if it had come alone."""

import struct
import zlib
from collections.abc import Iterable, Iterator

MARK = b"bulk_pipelines: files in their order"
MOST_FILES = 10_000

# All sizes and places are written in their long form, so that no file is too large, and the length is known beforehand.
FILE = struct.Struct("<4s5H3L2H")
FILE_SIZES = struct.Struct("<2H2Q")
FILE_END = struct.Struct("<4sL2Q")
ENTRY = struct.Struct("<4s6H3L5H2L")
ENTRY_SIZES = struct.Struct("<2H3Q")
END_64 = struct.Struct("<4sQ2H2L4Q")
END_64_PLACE = struct.Struct("<4sLQL")
END = struct.Struct("<4s4H2LH")

VERSION, STORED, NO_TIME, NO_DATE = 45, 0, 0, 0x0021
FLAGS = 1 << 3 | 1 << 11
"""Sizes stand behind the file, and names are UTF-8."""
SHORT, LONG = 0xFFFF, 0xFFFFFFFF
"""What says that the long form has the value."""
OVERHEAD = FILE.size + FILE_SIZES.size + FILE_END.size + ENTRY.size + ENTRY_SIZES.size


def packed(files: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """Yield a bundle of these files, which have a name and their bytes. One piece of one file is held at a time."""
    entries: list[bytes] = []
    place = 0
    for name, pieces in files:
        title = title_of(name)
        told = (VERSION, FLAGS, STORED, NO_TIME, NO_DATE)
        yield FILE.pack(b"PK\3\4", *told, 0, LONG, LONG, len(title), FILE_SIZES.size)
        yield title + FILE_SIZES.pack(1, 16, 0, 0)
        size = checksum = 0
        for piece in pieces:
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
            yield piece
        yield FILE_END.pack(b"PK\7\x08", checksum, size, size)
        sizes = (checksum, LONG, LONG, len(title), ENTRY_SIZES.size)
        entry = ENTRY.pack(b"PK\1\2", VERSION, *told, *sizes, 0, 0, 0, 0, LONG)
        entries.append(entry + title + ENTRY_SIZES.pack(1, 24, size, size, place))
        place += FILE.size + len(title) + FILE_SIZES.size + size + FILE_END.size
    listed, count = b"".join(entries), len(entries)
    yield listed
    yield END_64.pack(b"PK\6\6", END_64.size - 12, VERSION, VERSION, 0, 0, count, count, len(listed), place)
    yield END_64_PLACE.pack(b"PK\6\7", 0, place + len(listed), 1)
    yield END.pack(b"PK\5\6", 0, 0, SHORT, SHORT, LONG, LONG, len(MARK)) + MARK


def length(files: Iterable[tuple[str, int]]) -> int:
    """Return how many bytes a bundle of files with these names and sizes has."""
    ends = END_64.size + END_64_PLACE.size + END.size + len(MARK)
    return ends + sum(OVERHEAD + 2 * len(title_of(name)) + size for name, size in files)


def title_of(name: str) -> bytes:
    return name.encode("utf-8", "replace")
