"""Parquet, XLSX and Arrow of an export: what the shared writers need to know of its request."""

from collections.abc import Iterator

import pyarrow as pa

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.exports.request import Compression, ExportRequest, Format
from bulk_pipelines.formats import arrow, parquet, xlsx
from bulk_pipelines.resources.rules import OneOf

CODECS = {Compression.NONE: "zstd", Compression.GZIP: "gzip", Compression.ZSTD: "zstd"}
"""The compression inside a Parquet file, which is always compressed. zstd is quicker than snappy here and takes half
the space."""


def batch(request: ExportRequest) -> int:
    """Return how many bytes of rows a reader hands over at a time."""
    return {Format.PARQUET: parquet.BATCH, Format.XLSX: xlsx.BATCH, Format.ARROW: arrow.BATCH}[request.format]


def schema(request: ExportRequest) -> pa.Schema:
    return xlsx.schema(request.columns) if request.format is Format.XLSX else parquet.schema(request.columns)


def written(request: ExportRequest, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    if request.format is Format.PARQUET:
        return parquet.written(request.columns, batches, CODECS[request.compression], repeating(request))
    if request.format is Format.ARROW:
        return arrow.written(schema(request), batches, "zstd" if request.compression is Compression.ZSTD else None)
    return xlsx.written(request.resource, request.columns, batches)


def repeating(request: ExportRequest) -> list[str]:
    """Return the paths of the columns whose values repeat, which get a dictionary. For other columns a dictionary is
    made in vain: it costs a third of the time, and is given up when it has grown too large."""
    referring = {reference.column for reference in request.declared.references}
    return [
        f"{column.name}.list.element" if column.kind is ColumnKind.TEXT_LIST else column.name
        for column in request.columns
        if column.kind is ColumnKind.TEXT_LIST
        or column.name in referring
        or any(isinstance(rule, OneOf) for rule in column.rules)
    ]
