"""An export as a stream of bytes. The first ones come long before the query is done."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from sqlalchemy import Engine

from bulk_pipelines.exports.formats import tables, text
from bulk_pipelines.exports.formats.compression import compressed
from bulk_pipelines.exports.read import batches, copying
from bulk_pipelines.exports.read.copying import Chunk
from bulk_pipelines.exports.read.counting import Counting
from bulk_pipelines.exports.read.preview import Record
from bulk_pipelines.exports.read.readers import in_order
from bulk_pipelines.exports.read.snapshot import Plan, planned
from bulk_pipelines.exports.request import COMPRESSED_INSIDE, Compression, ExportRequest, Format

CONNECTIONS = {Format.CSV: 1, Format.JSON: 2, Format.NDJSON: 2, Format.PARQUET: 1, Format.XLSX: 1, Format.ARROW: 1}
"""How many connections read a large table at the same time. A second one is kept where an export without it takes more
than a tenth longer at a million rows and at ten million; docs/benchmarks.md has the figures."""

ARROW = {Format.PARQUET, Format.XLSX, Format.ARROW}
"""Formats that are written here from Arrow's batches. PostgreSQL itself writes the rows of the others."""


@dataclass
class Tally:
    """How far an export has come."""

    rows: int = 0
    bytes: int = 0
    expected_rows: int = 0
    """The estimate of PostgreSQL's planner, which may be far off."""
    preview: list[Record] = field(default_factory=list)
    """The first records, as many as were asked for."""


def never() -> bool:
    return False


def stream(
    engine: Engine,
    request: ExportRequest,
    *,
    cancelled: Callable[[], bool] = never,
    tally: Tally | None = None,
    preview: int = 0,
) -> Generator[bytes]:
    """Return the bytes of an export, piece by piece. They take the same memory at any size, and all rows are of one
    state of the database.

    Closing the generator early cancels the query. `cancelled` is called between pieces and while PostgreSQL works; when
    it returns true, `Cancelled` is raised. `tally` is kept up to date, and gets the first `preview` records.
    """
    return read_by(CONNECTIONS[request.format], engine, request, cancelled, tally or Tally(), preview)


def read_by(
    connections: int, engine: Engine, request: ExportRequest, cancelled: Callable[[], bool], tally: Tally, preview: int
) -> Generator[bytes]:
    """Yield the bytes of an export that so many connections read, if its table is cut into as many parts."""
    with ExitStack() as until_joined:
        plan, connection = until_joined.enter_context(planned(engine, request, connections, preview, cancelled))
        tally.expected_rows, tally.preview = plan.expected_rows, list(plan.preview)
        readers = min(connections, plan.parts)
        source = partial(in_order, readers=readers, parts=plan.parts, cancelled=cancelled)
        if request.format in ARROW:
            counting = Counting(connection, plan, request.resource, until_joined.close)
            reading = arrow_read(engine, request, plan, source, tally, counting)
        else:
            reading = text_read(engine, request, plan, partial(source, joined=until_joined.close), tally)
        outside = Compression.NONE if request.format in COMPRESSED_INSIDE else request.compression
        with closing(reading) as pieces:
            for data in compressed(pieces, outside):
                if data:
                    tally.bytes += len(data)
                    yield data


def text_read(
    engine: Engine, request: ExportRequest, plan: Plan, source: Callable[..., Generator[Chunk]], tally: Tally
) -> Generator[bytes]:
    options = text.CSV if request.format is Format.CSV else text.JSON_LINES
    shape = text.array if request.format is Format.JSON else text.lines

    def counted(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        for chunk in chunks:
            tally.rows += chunk.rows
            yield chunk

    with closing(source(partial(copying.reader, engine.url, plan, request.resource, options))) as chunks:
        yield from shape(counted(chunks))


def arrow_read(
    engine: Engine,
    request: ExportRequest,
    plan: Plan,
    source: Callable[..., Generator[pa.RecordBatch]],
    tally: Tally,
    counting: Counting,
) -> Generator[bytes]:
    reader = partial(batches.reader, engine.url, plan, request.resource, tables.batch(request))
    schema = tables.schema(request)

    def counted(read: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in read:
            tally.rows += batch.num_rows
            yield batches.declared(batch, schema)
        counting.check(tally.rows)

    try:
        with closing(source(reader, joined=counting.start)) as read:
            yield from tables.written(request, counted(read))
    finally:
        counting.stop()
