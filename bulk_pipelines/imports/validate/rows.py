"""Good rows in the form that the database takes: for the table itself, for the tables in which rows wait, and for the
ledger."""

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns import arrow, binary_copy, binary_forms, text_copy, uuids
from bulk_pipelines.columns.arrow import Column, Numbers
from bulk_pipelines.columns.binary_copy import Encoded
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.resources.declaration import Resource


def encoded(resource: Resource, columns: dict[str, Column], given: pa.Table | None = None) -> Encoded:
    """Encode columns, sorted by the first key if that is cheap. If PostgreSQL has to read any of them from its text,
    all are written as text, and those that `given` has as they stand there; otherwise all are in the binary form."""
    forms = binary_forms_of(resource, columns)
    if forms is not None:
        rows = binary_copy.encode(columns | forms)
    else:
        texts = {} if given is None else {name: arrow.column(given, name) for name in given.column_names}
        texts = {
            name: text if resource.column(name).empty_is_value else arrow.without_empty(text)
            for name, text in texts.items()
            if name not in resource.id_columns
        }
        rows = text_copy.encode(columns | texts)
    if len(resource.id_columns) != 1 or resource.id_columns[0] not in columns:
        return rows
    ids = columns[resource.id_columns[0]]
    sortable = ids.type == uuids.BINARY or pa.types.is_integer(ids.type)
    return binary_copy.by_id(rows, ids) if sortable and not ids.null_count else rows


def binary_forms_of(resource: Resource, columns: dict[str, Column]) -> dict[str, Column] | None:
    """Return the binary form of the columns whose values are texts, or lists for an array; None if only PostgreSQL can
    read any of them."""
    forms = {}
    for name in [*left_to_table(resource, columns), *arrays(resource, columns)]:
        form = binary_forms.written(columns[name], resource.column(name).base_type)
        if form is None:
            return None
        forms[name] = form
    return forms


def left_to_table(resource: Resource, columns: dict[str, Column]) -> list[str]:
    """Return the names of the columns whose values are texts that only PostgreSQL can read."""
    return [
        column.name
        for column in resource.columns
        if column.kind is not ColumnKind.TEXT
        and column.name in columns
        and pa.types.is_string(columns[column.name].type)
    ]


def arrays(resource: Resource, columns: dict[str, Column]) -> list[str]:
    """Return the names of the columns whose values are lists of plain values."""
    return [
        column.name
        for column in resource.columns
        if column.kind is ColumnKind.ARRAY and column.name in columns and pa.types.is_list(columns[column.name].type)
    ]


def for_table(context: ImportContext, table: pa.Table, lines: Numbers, given: pa.Table | None = None) -> Encoded:
    """Encode good rows as they are copied: into the table itself, or in modes that look at the whole file first, into
    the place where they wait. `given` has the values of some columns as they stand in the file."""
    columns = with_origin(context, table, lines)
    if context.mode is Mode.INSERT and not context.resource.provenance:
        columns = {name: columns[name] for name in table.column_names}
    return encoded(context.resource, columns, given)


def for_ledger(context: ImportContext, table: pa.Table, lines: Numbers) -> Encoded | None:
    """Encode what the ledger keeps of good rows: their keys and lines."""
    resource = context.resource
    if context.mode is not Mode.INSERT or resource.provenance or not resource.keys:
        return None
    columns = {name: arrow.column(table, name) for key in resource.keys for name in key.columns}
    columns["import_line"] = pa.array(lines, pa.int64())
    return encoded(resource, columns)


def same_rows(one: Encoded, other: Encoded) -> Encoded:
    """Return the rows of one encoding that another one has."""
    places = np.empty(len(one.order), dtype=np.int64)
    places[one.order] = np.arange(len(one.order))
    return one.take(places[other.order])


def with_origin(context: ImportContext, table: pa.Table, lines: Numbers) -> dict[str, Column]:
    """Return the columns of good rows, with those that say where the rows come from."""
    columns = {name: arrow.column(table, name) for name in table.column_names}
    columns["import_job"] = pa.repeat(pa.scalar(context.job_id, pa.int64()), len(lines))
    columns["import_line"] = pa.array(lines, pa.int64())
    return columns
