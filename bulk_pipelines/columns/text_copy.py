"""Encoding columns in the text form of COPY, for rows with values that only PostgreSQL can read: numbers of any size,
intervals, JSON, arrays. A COPY has one form, so the other columns of such rows are written as text too."""

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns import timestamps, uuids
from bulk_pipelines.columns.arrow import Column, compute
from bulk_pipelines.columns.binary_copy import Encoded

MISSING = r"\N"
ESCAPES = (("\\", r"\\"), ("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t"))


def encode(columns: dict[str, Column]) -> Encoded:
    count = len(next(iter(columns.values())))
    fields = [field(values).cast(pa.binary()) for values in columns.values()]
    ends = [*[pa.scalar(b"\t")] * (len(fields) - 1), pa.scalar(b"\n")]
    parts = [part for pair in zip(fields, ends, strict=True) for part in pair]
    rows = compute.binary_join_element_wise(*parts, b"")
    return Encoded(list(columns), rows, np.arange(count), as_text=True)


def field(values: Column) -> Column:
    """Write values as fields, in which nothing can be taken for the end of a field or a row."""
    text = as_text(values)
    if not (pa.types.is_string(values.type) or pa.types.is_list(values.type)):
        return compute.fill_null(text, MISSING)
    if compute.any(compute.match_substring_regex(text, r"[\\\n\r\t]")).as_py():
        for character, written in ESCAPES:
            text = compute.replace_substring(text, character, written)
    return compute.fill_null(text, MISSING)


def as_text(values: Column) -> Column:
    """Write values as PostgreSQL reads them; null stays null."""
    if values.type == uuids.BINARY:
        return uuids.to_text(values)
    if pa.types.is_list(values.type):
        return lists(values)
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return timestamps.with_years(values.cast(pa.string()), values)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def lists(values: Column) -> Column:
    """Write lists as arrays: every element in quotes."""
    elements = as_text(values.flatten())
    for character in ("\\", '"'):
        elements = compute.replace_substring(elements, character, "\\" + character)
    quoted = compute.binary_join_element_wise('"', elements, '"', "")
    counts = compute.fill_null(compute.list_value_length(values), 0).to_numpy().astype(np.int32)
    offsets: Column = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    joined = compute.binary_join(pa.ListArray.from_arrays(offsets, compute.fill_null(quoted, "NULL")), ",")
    written = compute.binary_join_element_wise("{", joined, "}", "")
    return compute.if_else(values.is_null(), pa.scalar(None, pa.string()), written)
