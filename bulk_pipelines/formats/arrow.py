"""Arrow's stream of record batches (IPC). It goes out as it is read, so its first bytes come at once."""

from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from bulk_pipelines.storage.contract import Sink

BATCH = 1 << 20
"""How many bytes of rows one record batch has."""


def written(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], codec: Literal["zstd"] | None = None
) -> Iterator[bytes]:
    """Yield the stream. `codec` is the compression inside it."""
    ready: list[bytes] = []
    sink: Any = Sink(lambda data: ready.append(bytes(data)))
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield b"".join(ready)
            ready.clear()
    yield b"".join(ready)
