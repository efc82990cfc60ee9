"""Making the columns of a resource of the fields of a file: fields get the names of their columns, dates and numbers of
other forms become ISO 8601 and plain numbers, constants and what expressions make are added."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns import arrow
from bulk_pipelines.columns.arrow import Column, compute, to_mask
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.formats.files.values import dated, with_point
from bulk_pipelines.formats.row_values import without
from bulk_pipelines.imports.context import Evaluate
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.records.parsed import Faults, Parsed, Reason, shown
from bulk_pipelines.resources.declaration import Resource


def mapped(parsed: Parsed, layout: Layout, resource: Resource, evaluate: Evaluate | None) -> Parsed:
    """Return the block with the columns of the resource instead of the fields of the file."""
    mapping = layout.mapping
    if mapping is None or not parsed.table.num_rows:
        return parsed if mapping is None else replace(parsed, table=without_rows(parsed.table, mapping))
    if mapping.nulls and layout.format is not Format.ROWS:
        parsed = replace(parsed, table=without_nulls(parsed.table, mapping, resource))
    faults = Faults()
    faults.update(parsed.faults)
    columns = by_column(parsed.table, mapping)
    for column, value in mapping.constants:
        columns[column] = pa.repeat(pa.scalar(value), parsed.table.num_rows)
    if mapping.expressions:
        assert evaluate is not None
        fields = {name: arrow.column(parsed.table, name) for name in parsed.table.column_names}
        commas = mapping.made if mapping.decimal else ()
        read = pa.table({**fields, **parsed.texts})
        made, failed = evaluate(read, mapping.expressions, numbers_of(resource, commas))
        columns |= made
        for row, (column, said) in failed.items():
            faults.add(int(parsed.records[row]), Reason("failed_expression", column, None, shown(said)))
    forms = dict(mapping.dates)
    for name, values in columns.items():
        if not pa.types.is_string(values.type):
            continue
        declared = resource.column(name)
        if name in forms:
            columns[name] = judged(parsed, faults, values, dated(values, forms[name]), name, declared.code)
        elif mapping.decimal and declared.kind.is_number:
            columns[name] = judged(parsed, faults, values, with_point(values), name, declared.code)
    return replace(parsed, table=pa.table(columns), faults=dict(faults))


def without_nulls(table: pa.Table, mapping: FieldMapping, resource: Resource) -> pa.Table:
    """Return the fields without the values that are spelt as none. A text in a column of JSON stands in quotes there,
    and a number among texts with a decimal comma has one, too."""
    columns = dict(zip(mapping.fields, mapping.columns, strict=True))
    found = {}
    for name in table.column_names:
        column = columns.get(name, name)
        kind = resource.column(column).kind if column else ColumnKind.TEXT
        nulls = mapping.nulls
        if kind is ColumnKind.JSON:
            nulls += tuple(json.dumps(each, ensure_ascii=False) for each in nulls)
        elif kind.is_number and mapping.decimal:
            nulls += tuple(each.replace(".", mapping.decimal) for each in nulls)
        found[name] = without(arrow.column(table, name), nulls)
    return pa.table(found)


def numbers_of(resource: Resource, columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in columns if resource.column(name).kind.is_number)


def by_column(table: pa.Table, mapping: FieldMapping) -> dict[str, Column]:
    if not mapping.fields:
        return {name: arrow.column(table, name) for name in table.column_names}
    pairs = zip(mapping.fields, mapping.columns, strict=True)
    return {column: arrow.column(table, field) for field, column in pairs if column}


def without_rows(table: pa.Table, mapping: FieldMapping) -> pa.Table:
    names = [*by_column(table, mapping), *mapping.made]
    return pa.schema([(name, pa.string()) for name in dict.fromkeys(names)]).empty_table()


def judged(parsed: Parsed, faults: Faults, given: Column, found: Column, name: str, code: str) -> Column:
    """Note the values that have not the form that was told, and return the others."""
    given_any = compute.and_(given.is_valid(), compute.greater(compute.binary_length(given), 0))
    wrong = np.flatnonzero(to_mask(compute.and_(given_any, found.is_null())))
    for row in wrong.tolist():
        faults.add(int(parsed.records[row]), Reason(code, name, shown(given[row].as_py())))
    return found
