"""Making columns of the rows of a table, of whatever types its fields are."""

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, Mask, Numbers, compute
from bulk_pipelines.counted import counted
from bulk_pipelines.formats.files.fields import mentions
from bulk_pipelines.formats.typed import arrow_sizes
from bulk_pipelines.formats.typed.arrow_text import text_of
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.records.blocks import Block
from bulk_pipelines.imports.records.parsed import Faults, Parsed, Reason
from bulk_pipelines.imports.records.typed_values import as_kind
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
    texts: dict[str, Column] = {}
    read_by = [expression for _, expression in layout.mapping.expressions]
    groups = [key.columns for key in resource.keys] + [each.columns for each in resource.references]
    tied = {name for columns_of in groups for name in columns_of}
    as_told = layout.mapping.row_values
    for place, values in enumerate(as_told.given(block.batch)):
        field, column = layout.mapping.fields[place], layout.mapping.columns[place]
        held = as_kind(values, resource.column(column), compared=column in tied) if column else text_of(values)
        columns[field] = readable(as_told.as_text(place, values, held), column or field, faults)
        if column and not pa.types.is_string(values.type) and any(mentions(each, field) for each in read_by):
            # What is no text is noted of the column already.
            texts[field] = readable(as_told.as_text(place, values, text_of(values)), field, Faults())
    if block.batch.nbytes > max_record_bytes:
        sizes = sizes_of(block.batch)
        for row in np.flatnonzero(sizes > max_record_bytes).tolist():
            faults.add(row, Reason("record_too_large", detail=f"{sizes[row]} bytes"))
    lines = block.spans.lines
    kept: Mask = np.ones(len(lines), dtype=bool)
    kept[[row for row, found in faults.items() if any(reason.field is None for reason in found)]] = False
    records = np.flatnonzero(kept)
    table = pa.table(columns)
    if not kept.all():
        table = table.filter(pa.array(kept)).combine_chunks()
        texts = {field: values.filter(pa.array(kept)) for field, values in texts.items()}
    return Parsed(table, records, lines[records], dict(faults), texts)


def sizes_of(batch: pa.RecordBatch) -> Numbers:
    """Return how many bytes the texts of each row have, and its lists and structures, about."""
    sizes: Numbers = np.zeros(batch.num_rows, dtype=np.int64)
    for values in batch.columns:
        kind = values.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
            sizes += compute.fill_null(compute.binary_length(values), 0).to_numpy()
        elif pa.types.is_nested(kind):
            sizes += arrow_sizes.sizes(values)
    return sizes


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
