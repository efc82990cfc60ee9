"""The text form of Arrow's values: how each would stand in a CSV file that PostgreSQL, and an import, can read."""

import io
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.csv

from bulk_pipelines.columns.arrow import Column, nothing
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.typed.arrow_nested import json_or_null
from bulk_pipelines.formats.typed.arrow_plain import leaf_types, plain, plain_type
from bulk_pipelines.formats.typed.arrow_values import text_of_plain


def text_of(values: Column) -> Column:
    """Return the values as text. Times of a zone have its clock and offset, bytes are hexadecimal digits, and lists and
    structures are JSON."""
    values = plain(values)
    return json_or_null(values) if pa.types.is_nested(values.type) else text_of_plain(values)


def refuse_unreadable(schema: pa.Schema) -> None:
    """Refuse a table with a field whose values have no text, before any of its rows are read."""
    for field in schema:
        try:
            for kind in leaf_types(plain_type(field.type)):
                text_of_plain(nothing(1, kind))
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())[:200]
            told = f"the field {field.name[:80]} is of the type {str(field.type)[:80]}, which cannot be read: {reason}"
            raise InvalidInput("source", told) from None


def csv_line(row: Iterable[Column]) -> bytes:
    """Return one row of columns as a line of CSV, without the end of the line."""
    columns = {str(number): text_of(values) for number, values in enumerate(row)}
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(pa.table(columns), out, options)
    return out.getvalue().removesuffix(b"\n")


def header_line(names: list[str]) -> bytes:
    return csv_line(pa.array([name]) for name in names)
