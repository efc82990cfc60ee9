"""The beginning of a file that a browser has cut off somewhere, as something that can be read: unpacked as far as it
goes, and without the record in which it ends."""

import json
import re
from contextlib import suppress

from bulk_pipelines.storage.compression import HEAD, Compression, recognised, unpacked
from bulk_pipelines.storage.errors import BadCompression

MOST = 4 << 20
"""How many unpacked bytes are looked at."""
BETWEEN = re.compile(r"[\s,]*")


def readable(data: bytes) -> tuple[bytes, Compression]:
    """Return whole records from the beginning of a file, and how it was compressed."""
    kind = recognised(data[:HEAD])
    plain = data if kind is Compression.NONE else unpacked_beginning(data, kind)
    return whole_members(plain) if plain.lstrip()[:1] == b"[" else whole_lines(plain), kind


def unpacked_beginning(data: bytes, kind: Compression) -> bytes:
    found = bytearray()
    # It is cut off, and said to be so at its end.
    with suppress(BadCompression):
        for piece in unpacked([data], kind, "the file"):
            found += piece
            if len(found) >= MOST:
                break
    return bytes(found)


def whole_lines(data: bytes) -> bytes:
    end = data.rfind(b"\n")
    return data[: end + 1] if end >= 0 else data


def whole_members(data: bytes) -> bytes:
    """Return the members of an array of JSON that are whole, as an array."""
    text = data.decode("utf-8", "ignore")
    place = end = text.index("[") + 1
    decoder = json.JSONDecoder()
    with suppress(ValueError, RecursionError):
        while True:
            between = BETWEEN.match(text, place)
            assert between
            _, place = decoder.raw_decode(text, between.end())
            end = place
    return f"{text[:end]}]".encode()
