"""The text form of Arrow's values: how each would stand in a CSV file that PostgreSQL, and an import, can read."""

import base64
import io
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.csv

from bulk_pipelines.columns import timestamps
from bulk_pipelines.columns.arrow import Column, compute


def text_of(values: Column) -> Column:
    """Return the values as text. Times with a zone are in UTC, binary values in hexadecimal digits, and lists and
    structures in JSON."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return uuid_text(values.storage) if kind.extension_name == "arrow.uuid" else text_of(values.storage)
    if pa.types.is_dictionary(kind):
        return text_of(values.dictionary).take(values.indices)
    if is_binary(kind):
        return pa.array([None if each is None else "\\x" + each.hex() for each in values.to_pylist()], pa.string())
    if pa.types.is_nested(kind):
        return pa.array([None if each is None else as_json(each) for each in values.to_pylist()], pa.string())
    return simple_text(values)


def simple_text(values: Column) -> Column:
    kind = values.type
    if pa.types.is_timestamp(kind):
        return time_text(values)
    if pa.types.is_date(kind):
        return timestamps.with_years(values.cast(pa.string()), values)
    if pa.types.is_duration(kind):
        numbers = values.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
        return compute.binary_join_element_wise(numbers, "microseconds", " ")
    return values if pa.types.is_string(kind) else values.cast(pa.string())


def is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def uuid_text(storage: Column) -> Column:
    texts = [None if each is None else each.hex() for each in storage.to_pylist()]
    return pa.array(
        [
            None if each is None else f"{each[:8]}-{each[8:12]}-{each[12:16]}-{each[16:20]}-{each[20:]}"
            for each in texts
        ],
        pa.string(),
    )


def time_text(values: Column) -> Column:
    zone = values.type.tz
    text = compute.strftime(values.cast(pa.timestamp(values.type.unit)), format="%Y-%m-%dT%H:%M:%S")
    return timestamps.with_years(compute.binary_join_element_wise(text, "Z", "") if zone else text, values)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=said)


def said(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def csv_line(row: Iterable[Column]) -> bytes:
    """Return one row of columns as a line of CSV, without the end of the line."""
    columns = {str(number): text_of(values) for number, values in enumerate(row)}
    out = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(pa.table(columns), out, options)
    return out.getvalue().removesuffix(b"\n")


def header_line(names: list[str]) -> bytes:
    return csv_line(pa.array([name]) for name in names)
