"""Converting the values of a file to what their column kind means: text to ids, flags, times and lists, by columns."""

import pyarrow as pa

from bulk_pipelines.columns import text_lists, timestamps, uuids
from bulk_pipelines.columns.arrow import Column, compute
from bulk_pipelines.columns.kinds import ColumnKind

FLAGS = pa.array(["true", "t", "1", "false", "f", "0"])
TRUE_ONES = 3

STORED: dict[ColumnKind, pa.DataType] = {kind: kind.arrow for kind in ColumnKind} | {ColumnKind.UUID: uuids.BINARY}
"""The Arrow type in which the values of each kind are held: the declared one, but sixteen bytes for ids, as PostgreSQL
takes them."""


def convert(values: Column, kind: ColumnKind) -> Column:
    """Convert the values to the form of their kind. The result is null where there is no value, or where the value is
    not of the kind."""
    if pa.types.is_string(values.type):
        return from_text(values, kind)
    if kind is ColumnKind.TEXT_LIST:
        broken = pa.array(text_lists.with_null_inside(values))
        return compute.if_else(broken, pa.scalar(None, text_lists.TYPE), values)
    return values


def from_text(text: Column, kind: ColumnKind) -> Column:
    match kind:
        case ColumnKind.TEXT:
            return text
        case ColumnKind.UUID:
            return uuids.parse(text)
        case ColumnKind.BOOLEAN:
            return compute.less(compute.index_in(compute.ascii_lower(text), FLAGS, skip_nulls=True), TRUE_ONES)
        case ColumnKind.TIMESTAMP:
            return timestamps.convert(text)
        case ColumnKind.TEXT_LIST:
            return text_lists.parse(text)
