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
