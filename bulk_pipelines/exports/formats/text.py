"""CSV, NDJSON and JSON: PostgreSQL writes the rows, what is left is what stands between them."""

from collections.abc import Iterator

from bulk_pipelines.exports.read.copying import Chunk, CopyOptions

# JSON has no raw control characters in it, so as CSV with these it is neither quoted nor escaped.
JSON_LINES = CopyOptions("DELIMITER E'\\x02', QUOTE E'\\x01'", header=False)
CSV = CopyOptions("DELIMITER ','", header=True)


def lines(chunks: Iterator[Chunk]) -> Iterator[bytes]:
    """CSV and NDJSON as they come."""
    for chunk in chunks:
        yield chunk.data


def array(chunks: Iterator[Chunk]) -> Iterator[bytes]:
    """One JSON array, a record in each line."""
    before = b"[\n"
    for chunk in chunks:
        yield before + chunk.data[:-1].replace(b"\n", b",\n")
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"
