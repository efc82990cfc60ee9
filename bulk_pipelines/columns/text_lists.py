"""Reading lists of strings, by columns. In CSV a list is written as the text of a JSON array."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.json

from bulk_pipelines.columns.arrow import Column, Mask, compute

TYPE = pa.list_(pa.string())
SCHEMA = pa.schema([("list", TYPE)])

BLANK = r"[ \t\r\n]*"
STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'


def array_of(element: str) -> str:
    """Return the grammar of JSON arrays of such elements."""
    return rf"^{BLANK}\[{BLANK}(?:{element}{BLANK}(?:,{BLANK}{element}{BLANK})*)?\]{BLANK}$"


VALID = array_of(STRING)
WITH_NULLS = array_of(f"(?:{STRING}|null)")
NESTED = rf'^{BLANK}\[{BLANK}\[.*"'
"""How JSON arrays of arrays begin that hold strings. Few files have any, so each is read by itself."""
LEAST_BLOCK = 1024


def parse(text: Column, grammar: str = VALID) -> Column:
    """Parse texts into lists. The result is null where there is no text, or where it is not a JSON array of strings, or
    of strings and nulls if the grammar knows those."""
    if text.null_count == len(text):
        return pa.nulls(len(text), TYPE)
    valid = compute.match_substring_regex(text, grammar)
    arrays = compute.if_else(compute.fill_null(valid, False), text, "null")
    # The grammar allows no newline inside strings, and between strings a newline is white space.
    lines = compute.replace_substring_regex(arrays, r"[\r\n]", " ")
    joined = compute.binary_join_element_wise('{"list":', lines, "}\n", "")
    data = b"".join(joined.cast(pa.binary()).to_pylist())
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),  # type: ignore[arg-type]  # the stubs know only Python's own files
            pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(data) + 1, LEAST_BLOCK)),
            pyarrow.json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid:  # half a surrogate pair is the one fault that the grammar does not find
        return pa.array([loaded(each) for each in arrays.to_pylist()], TYPE)
    return table.column(0).combine_chunks()


def loaded(text: str) -> list[str | None] | None:
    values: list[str | None] | None = json.loads(text)
    try:
        "".join(filter(None, values or [])).encode()
    except UnicodeEncodeError:
        return None
    return values


def with_null_inside(lists: Column) -> Mask:
    """Tell which lists hold a null: JSON allows this, but a list of strings does not."""
    mask = np.zeros(len(lists), dtype=bool)
    values = lists.flatten()
    if values.null_count:
        mask[compute.list_parent_indices(lists).filter(values.is_null()).to_numpy()] = True
    return mask


def as_array(text: str) -> str:
    """Write a JSON array of arrays as PostgreSQL writes arrays. A text that is no such array stays as it is."""
    try:
        return written(json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number))
    except (ValueError, TypeError, RecursionError):
        return text


class Number(str):
    """A number of JSON, as it is written."""


def written(value: object) -> str:
    if isinstance(value, list):
        if [] in value:
            raise ValueError("PostgreSQL has no array of empty arrays")
        return "{" + ",".join(map(written, value)) + "}"
    if value is None:
        return "NULL"
    if isinstance(value, bool | Number):
        return str(value).lower() if isinstance(value, bool) else value
    if isinstance(value, str):
        value.encode()
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise TypeError("an object is no element of an array")
