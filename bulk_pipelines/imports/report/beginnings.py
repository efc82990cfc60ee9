"""Looking at a file that somebody has sent to be looked at, or at its beginning, cut off somewhere: what can be read of
it is unpacked as far as it goes, and without the record in which it ends."""

import codecs
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Engine

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.report.preview import Preview, preview
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.compression import HEAD, Compression, decided, unpacked
from bulk_pipelines.storage.errors import BadCompression

MOST = 4 << 20
"""About how many unpacked bytes are looked at."""
BETWEEN = re.compile(r"[\s,]*")
WIDE = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""The marks of encodings in which a line ends with several bytes; UTF-32's before those that they begin with."""


def looked_at(pool: Engine, options: Options, path: Path, name: str, chosen: Settings, *, cut: bool) -> Preview:
    """Look at a file that was sent under this name. If it was `cut`, what can be read of it is written in its place."""
    told: dict[str, str] = {}
    if cut:
        said = options.request((RequestedFile(str(path)),)).compression
        data, packed = readable(path.read_bytes(), said, options.reading.encoding, name)
        path.write_bytes(data)
        if packed is not Compression.NONE:
            options, told = replace(options, compression=None), {"compression": str(packed)}
    try:
        found = preview(pool, options, RequestedFile(str(path), path.stat().st_size, name=name), chosen)
    except InvalidInput as error:  # its sender knows the file by its name, and nobody is told where it lies here
        raise type(error)(error.field, error.message.replace(str(path), name)) from None
    problem = None if found.problem is None else found.problem.replace(str(path), name)
    return replace(found, problem=problem, recognised=told | dict(found.recognised))


def readable(data: bytes, said: Compression | None, encoding: str | None, shown: str) -> tuple[bytes, Compression]:
    """Return whole records from the beginning of a file, and how it was compressed."""
    kind = decided(data[:HEAD], said, shown)
    plain = data[:MOST] if kind is Compression.NONE else unpacked_beginning(data, kind, shown)
    if plain.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"[":
        return whole_members(plain), kind
    marked = next((name for mark, name in WIDE.items() if plain.startswith(mark)), None)
    return whole_lines(plain, marked or encoding or "utf-8"), kind


def unpacked_beginning(data: bytes, kind: Compression, shown: str) -> bytes:
    found = bytearray()
    # It is cut off, and said to be so at its end.
    with suppress(BadCompression):
        for piece in unpacked([data], kind, shown):
            found += piece
            if len(found) >= MOST:
                break
    return bytes(found)


def whole_lines(data: bytes, encoding: str) -> bytes:
    # Some encodings begin every text with a mark.
    newline = "\n\n".encode(encoding).removeprefix("\n".encode(encoding))
    end = data.rfind(newline)
    while end % len(newline) and end > 0:  # halves of two letters
        end = data.rfind(newline, 0, end + len(newline) - 1)
    return data[: end + len(newline)] if end >= 0 else data


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
