"""Making columns of the rows of a table. A column keeps its type where that is the type of its kind, and becomes text,
which is judged value by value, where it is not."""

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns import conversion, timestamps
from bulk_pipelines.columns.arrow import Column, Mask, Numbers, compute
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.counted import counted
from bulk_pipelines.formats.arrow_text import text_of
from bulk_pipelines.formats.files.fields import mentions
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.records.blocks import Block
from bulk_pipelines.imports.records.parsed import Faults, Parsed, Reason
from bulk_pipelines.resources.declaration import Resource


def parse(block: Block, layout: Layout, resource: Resource, max_record_bytes: int) -> Parsed:
    assert block.batch is not None
    assert layout.mapping is not None
    faults = Faults()
    surplus = block.batch.column(1).to_numpy()
    width = len(layout.mapping.fields)
    for row in np.flatnonzero(surplus).tolist():
        detail = f"{counted(width + int(surplus[row]), 'field')} instead of {width}"
        faults.add(row, Reason("malformed_record", detail=detail))
    columns: dict[str, Column] = {}
    as_told = layout.mapping.row_values
    for place, values in enumerate(as_told.given(block.batch)):
        field, column = layout.mapping.fields[place], layout.mapping.columns[place]
        is_read = any(mentions(text, field) for _, text in layout.mapping.expressions)  # expressions read texts
        kind = resource.column(column).kind if column and not is_read else ColumnKind.TEXT
        found = as_told.as_text(place, values, as_kind(values, kind))
        columns[field] = readable(found, column or field, faults)
    if block.batch.nbytes > max_record_bytes:
        sizes = sizes_of(block.batch)
        for row in np.flatnonzero(sizes > max_record_bytes).tolist():
            faults.add(row, Reason("record_too_large", detail=f"{sizes[row]} bytes"))
    lines = block.spans.lines
    kept: Mask = np.ones(len(lines), dtype=bool)
    kept[[row for row, found in faults.items() if any(reason.field is None for reason in found)]] = False
    records = np.flatnonzero(kept)
    table = pa.table(columns).filter(pa.array(kept)).combine_chunks()
    return Parsed(table, records, lines[records], dict(faults))


def sizes_of(batch: pa.RecordBatch) -> Numbers:
    """Return how many bytes the texts of each row have."""
    sizes: Numbers = np.zeros(batch.num_rows, dtype=np.int64)
    for values in batch.columns:
        kind = values.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
            sizes += compute.fill_null(compute.binary_length(values), 0).to_numpy()
    return sizes


def as_kind(values: Column, kind: ColumnKind) -> Column:
    """Return the values in the type of their kind, or as text."""
    stored = conversion.STORED[kind]
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if values.type == stored and not pa.types.is_timestamp(stored):
        return values
    are_times = pa.types.is_timestamp(values.type) and pa.types.is_timestamp(stored)
    if are_times or numbers(values.type, stored):
        try:
            if are_times:
                return moments(values, stored)
            return number_as(values, stored)
        except pa.ArrowInvalid:
            return text_of(values)
    return text_of(values)


def moments(values: Column, stored: pa.DataType) -> Column:
    """Return times as the kind holds them; one without a zone is in UTC. One that PostgreSQL does not know becomes
    text, and so do all of its block."""
    found = values.cast(pa.timestamp("us", tz=values.type.tz)).cast(stored)
    if timestamps.within_range(found).null_count > found.null_count:
        raise pa.ArrowInvalid("a time is out of range")
    return found


def number_as(values: Column, stored: pa.DataType) -> Column:
    """Return numbers as the kind holds them. One that is too large for that, or so small that it would become zero,
    makes texts of all of its block: the table refuses it."""
    found = values.cast(stored)
    if pa.types.is_floating(stored) and found.type != values.type:
        given = values.cast(pa.float64())
        grown = compute.and_not(compute.is_inf(found), compute.is_inf(given))
        gone = compute.and_not(compute.equal(found, 0.0), compute.equal(given, 0.0))
        if compute.any(compute.or_(grown, gone)).as_py():
            raise pa.ArrowInvalid("a number is out of range")
    return found


def numbers(given: pa.DataType, stored: pa.DataType) -> bool:
    is_number = pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
    return bool(is_number and (pa.types.is_integer(stored) or pa.types.is_floating(stored)))


def readable(values: Column, name: str, faults: Faults) -> Column:
    """Note the texts that are not UTF-8, which a table may hold as well, and return the others."""
    if not pa.types.is_string(values.type):
        return values
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for row, data in enumerate(values.cast(pa.binary()).to_pylist()):
            try:
                texts.append(None if data is None else data.decode())
            except UnicodeDecodeError:
                faults.add(row, Reason("invalid_encoding", name))
                texts.append(None)
        return pa.array(texts, pa.string())
    return values
