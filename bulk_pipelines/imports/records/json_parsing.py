"""Parsing a block of JSON objects, from NDJSON or an array, into columns."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.json

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.formats.files import json_ends
from bulk_pipelines.formats.files.csv_ends import NEWLINE, RETURN, array_of
from bulk_pipelines.formats.files.fields import mentions
from bulk_pipelines.imports.plan.inspect.layout import Format
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.records import json_record, json_texts, parsed
from bulk_pipelines.imports.records.blocks import Block
from bulk_pipelines.imports.records.json_record import Wanted
from bulk_pipelines.imports.records.parsed import Faults, Parsed, Reason
from bulk_pipelines.resources.declaration import Column, Resource

LEAST_BLOCK = 1024
# A part of the block that Arrow refuses is looked at record by record if it has no more records than this.
FEW = 128


def schema_of(resource: Resource) -> pa.Schema:
    typed = {ColumnKind.BOOLEAN: pa.bool_(), ColumnKind.TEXT_LIST: pa.list_(pa.string())} if resource.built_in else {}
    columns = {column.in_files or column.name: column for column in resource.columns}
    return pa.schema([(name, typed.get(column.kind, pa.string())) for name, column in columns.items()])


def as_read(resource: Resource, mapping: FieldMapping) -> tuple[Resource, tuple[str, ...], frozenset[str]]:
    """Return the resource with a column for each field of the file that is wanted, the names of these fields in
    expressions, and the fields that are left out. A field that only expressions read is of any kind, and has a name
    that no column has."""
    columns, names, ignored = [], [], set[str]()
    for name, title, column in zip(mapping.fields, mapping.titles, mapping.columns, strict=True):
        if column:
            columns.append(replace(resource.column(column), in_files=title))
        elif any(mentions(text, name) for _, text in mapping.expressions):
            free = f"the field {name}"
            while free in resource.column_names:
                free += " "
            columns.append(Column(free, ColumnKind.OTHER, "", type="text", in_files=title))
        else:
            ignored.add(title)
            continue
        names.append(name)
    return replace(resource, columns=tuple(columns)), tuple(names), frozenset(ignored)


def parse(block: Block, resource: Resource, mapping: FieldMapping | None = None) -> Parsed:
    """Parse a block into the columns of the resource; with a mapping, into the fields that this names."""
    names, ignored = resource.column_names, frozenset[str]()
    if mapping is not None and mapping.fields:
        resource, names, ignored = as_read(resource, mapping)
    schema = schema_of(resource)
    if block.oversized:
        return parsed.oversized(block, schema.empty_table().rename_columns(list(names)))
    faults = Faults()
    text, unreadable = as_lines(block)
    for record, reason in parsed.undecodable(block).items():
        faults.add(record, reason)
        unreadable.add(record)
    told = mapping or FieldMapping()
    wanted = Wanted(resource, schema, ignored, told.ignore_extra, told.decimal is not None, told.nulls)
    pieces = [judged(block, sorted(unreadable - faults.keys()), wanted, faults)]
    for first, last in gaps(len(block.spans), sorted(unreadable)):
        pieces.extend(sift(block, text, first, last, wanted, faults))
    records = np.concatenate([records for records, _ in pieces])
    table = pa.concat_tables([table for _, table in pieces]).combine_chunks()
    if len(pieces) > 2:
        order = np.argsort(records)
        records, table = records[order], table.take(order)
    table = table.rename_columns(list(names))
    return Parsed(table, records, block.spans.lines[records], faults)


Piece = tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Table]
"""The numbers of some records of the block, and the same records as rows."""


def as_lines(block: Block) -> tuple[bytes, set[int]]:
    """Return the block with one record on each line and every byte in its old place, and the numbers of the records
    that Arrow must not see.

    These are records that do not begin as an object, because Arrow crashes on a line that is `null`, and records of an
    array with the end of a line inside a string, because writing each record on one line hides that fault. Arrow also
    takes two objects on a line for two records; `read` finds that by counting the rows.
    """
    data, spans, broken = block.data, block.spans, set[int]()
    if block.format is Format.JSON:
        broken |= records_with_broken_strings(block)
        changed = bytearray(data.translate(bytes.maketrans(b"\r\n", b"  ")))
        commas = spans.stops[:-1] - 1
        array = np.frombuffer(changed, dtype=np.uint8)
        array[commas] = ord("\n")
        if array_of(data)[spans.stops[-1] - 1] == json_ends.COMMA:
            array[spans.stops[-1] - 1] = ord("\n")
        del array
        data = bytes(changed)
    doubtful = np.flatnonzero(array_of(data)[np.minimum(spans.starts, len(data) - 1)] != ord("{"))
    for record in doubtful.tolist():
        if not data[spans.starts[record] : spans.stops[record]].lstrip(json_ends.SPACE).startswith(b"{"):
            broken.add(record)
    return data, broken


def records_with_broken_strings(block: Block) -> set[int]:
    """Find the records of an array with the end of a line inside a string, which JSON forbids and `as_lines` hides."""
    view = array_of(block.data)
    breaks = np.flatnonzero((view == NEWLINE) | (view == RETURN))
    if not len(breaks):
        return set()
    inside = breaks[np.searchsorted(json_ends.string_quotes(block.data), breaks) % 2 == 1]
    return set(np.searchsorted(block.spans.stops, inside, side="right").tolist())


def gaps(count: int, holes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the runs of numbers below `count` between the holes: the first number, and the one behind the last."""
    first = 0
    for hole in [*holes, count]:
        if hole > first:
            yield first, hole
        first = hole + 1


def sift(block: Block, text: bytes, first: int, last: int, wanted: Wanted, faults: Faults) -> Iterator[Piece]:
    """Read these records as columns. If Arrow refuses them, try each half, down to a few records, and look at these one
    by one."""
    lines = text[block.spans.starts[first] : block.spans.stops[last - 1]]
    if not wanted.resource.built_in:
        lines = json_texts.quoted(lines, wanted.resource, has_commas=wanted.has_commas)
    table = read(lines, last - first, wanted)
    if table is not None:
        yield np.arange(first, last), table
    elif last - first <= FEW:
        yield judged(block, list(range(first, last)), wanted, faults)
    else:
        middle = (first + last) // 2
        yield from sift(block, text, first, middle, wanted, faults)
        yield from sift(block, text, middle, last, wanted, faults)


def read(text: bytes, count: int, wanted: Wanted) -> pa.Table | None:
    """Read so many records as a table; return None if any of them is not what the schema says."""
    extra: Literal["ignore", "infer", "error"] = "infer" if wanted.ignored else "error"
    extra = "ignore" if wanted.ignore_extra else extra
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(text),  # type: ignore[arg-type]  # the stubs know only Python's own files
            pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(text) + 1, LEAST_BLOCK)),
            pyarrow.json.ParseOptions(explicit_schema=wanted.schema, unexpected_field_behavior=extra),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != count or not set(table.column_names) <= {*wanted.schema.names, *wanted.ignored}:
        return None
    return table.select(wanted.schema.names)


def judged(block: Block, records: list[int], wanted: Wanted, faults: Faults) -> Piece:
    """Look at records one by one. Add the reasons against each to the faults, and return as rows what can be read."""
    lines: dict[int, bytes] = {}
    for record in records:
        line, reasons = json_record.judge(block.raw(record), wanted)
        if reasons:
            faults[record] += reasons
        if line is not None:
            lines[record] = line
    table = read(b"\n".join(lines.values()), len(lines), wanted) if lines else wanted.schema.empty_table()
    if table is None:  # Arrow and Python's json do not agree: find out about which records
        singles = {record: read(line, 1, wanted) for record, line in lines.items()}
        for record in [record for record, single in singles.items() if single is None]:
            faults.add(record, Reason("malformed_record", detail="the JSON cannot be read"))
        lines = {record: lines[record] for record, single in singles.items() if single is not None}
        table = pa.concat_tables(
            [wanted.schema.empty_table(), *(single for single in singles.values() if single is not None)]
        )
    return np.array(list(lines), dtype=np.int64), table
