"""Arrow files and streams, of any compression, are read whole, or refused in one line."""

import io
from typing import Any, Literal

import pyarrow as pa
import pytest

from bulk_pipelines.errors import BulkError
from bulk_pipelines.formats import parquet_rows

TABLE = pa.table(
    {
        "id": range(1_000),
        "word": pa.array(["red", "green", None, "blue"] * 250).dictionary_encode(),
        "words": [["a", None], [], None, ["b"]] * 250,
        "part": [{"x": 1, "y": "z"}, None] * 500,
    }
)


def written(kind: str, compression: Literal["lz4", "zstd"] | None, table: pa.Table = TABLE) -> bytes:
    out = io.BytesIO()
    opened: Any = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with opened(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=300)
    return out.getvalue()


def read(data: bytes) -> list[dict[str, Any]]:
    _, batches = parquet_rows.arrow(io.BytesIO(data), 200.0)
    return [row for batch in batches for row in batch.select(TABLE.schema.names).to_pylist()]


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_all_rows_are_read(kind: str, compression: Literal["lz4", "zstd"] | None) -> None:
    assert read(written(kind, compression)) == TABLE.to_pylist()


def test_a_dictionary_may_grow() -> None:
    words = pa.chunked_array([pa.array([each]).dictionary_encode() for each in ("a", "b", "a")])
    table = pa.table({"id": range(3), "word": words, "words": [["x"]] * 3, "part": [None] * 3})
    assert [row["word"] for row in read(written("stream", "zstd", table))] == ["a", "b", "a"]


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_every_cut_file_is_refused_or_ends_with_a_batch(kind: str) -> None:
    data = written(kind, "zstd")
    whole = TABLE.to_pylist()
    for stop in range(8, len(data) - 1, 97):
        try:
            found = read(data[:stop])
        except (BulkError, pa.ArrowException, OSError):
            continue
        assert kind == "stream"
        assert len(found) % 300 == 0
        assert found == whole[: len(found)]


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_damaged_description_is_refused(kind: str) -> None:
    data = written(kind, "zstd")
    for place in range(8, 2_000, 13):
        damaged = data[:place] + bytes([data[place] ^ 0x7F]) + data[place + 1 :]
        try:
            read(damaged)
        except (BulkError, pa.ArrowException, OSError, KeyError, ValueError):
            continue
