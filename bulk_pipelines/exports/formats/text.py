"""CSV, NDJSON and JSON. PostgreSQL writes the rows, and this module adds what stands between the records of a JSON
array."""

from collections.abc import Iterator

from bulk_pipelines.exports.read.copying import Chunk, CopyOptions

# JSON holds no raw control characters, so COPY neither quotes nor escapes it with these as its delimiter and quote.
JSON_LINES = CopyOptions("DELIMITER E'\\x02', QUOTE E'\\x01'", header=False)
CSV = CopyOptions("DELIMITER ','", header=True)


def lines(chunks: Iterator[Chunk]) -> Iterator[bytes]:
    """Yield CSV or NDJSON as PostgreSQL wrote it."""
    for chunk in chunks:
        yield chunk.data


def array(chunks: Iterator[Chunk]) -> Iterator[bytes]:
    """Yield one JSON array, with a record on each line."""
    before = b"[\n"
    for chunk in chunks:
        yield before + chunk.data[:-1].replace(b"\n", b",\n")
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"
