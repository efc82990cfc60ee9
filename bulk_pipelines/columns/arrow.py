"""Arrow's columns, and small helpers for them. Many types here are `Any`, because pyarrow's stubs know few of the
arguments that its functions take."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

compute: Any = pyarrow.compute

Column = Any
"""A pyarrow.Array: a column in one piece, of any type."""

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def column(table: pa.Table, name: str) -> Column:
    """Return a column of the table in one piece."""
    chunks: Any = table.column(name)
    return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()


def nothing(count: int, kind: pa.DataType) -> Column:
    """Make a column of nulls."""
    any_kind: Any = kind
    return pa.nulls(count, any_kind)


def buffer(array: npt.NDArray[Any]) -> pa.Buffer:
    memory: Any = np.ascontiguousarray(array)
    return pa.py_buffer(memory)


def bitmap(valid: Mask) -> pa.Buffer:
    """Write which values are not null in the form that Arrow has for it: one bit each."""
    return buffer(np.packbits(valid, bitorder="little"))


def to_mask(column: Column) -> Mask:
    """Turn a column of booleans into a numpy array, in which null is false."""
    mask: Mask = compute.fill_null(column, False).to_numpy(zero_copy_only=False)
    return mask


def text_bytes(text: Column) -> Bytes:
    """Return the bytes of a text column, one value behind the other. Those of nulls are among them, see `packed`."""
    offsets = text_offsets(text)
    data: Any = text.buffers()[2]
    if data is None:
        return np.zeros(0, dtype=np.uint8)
    return np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]


def packed(text: Column) -> Column:
    """Return the texts without bytes of nulls. In Arrow nulls may have some, which mean nothing."""
    if not text.null_count:
        return text
    valid: Mask = text.is_valid().to_numpy(zero_copy_only=False)
    if not np.diff(text_offsets(text))[~valid].any():
        return text
    _, offsets, data = compute.fill_null(text, "").buffers()
    return pa.StringArray.from_buffers(len(text), offsets, data, bitmap(valid))


def numbers_of(values: Column) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = values.fill_null(0).to_numpy()
    return numbers


def has_any(text: Column, characters: bytes) -> bool:
    """Tell whether any of these characters stands in any of the texts. To tell in which of them takes much longer."""
    data = text_bytes(text)
    return any(bool((data == character).any()) for character in characters)


def without_empty(text: Column) -> Column:
    """Return the texts, with null in the place of those that are empty."""
    empty = compute.equal(compute.binary_length(text), 0)
    return compute.if_else(empty, pa.scalar(None, pa.string()), text) if compute.any(empty).as_py() else text


def text_offsets(text: Column) -> npt.NDArray[np.int32]:
    if not len(text):
        return np.zeros(1, dtype=np.int32)
    data: Any = text.buffers()[1]
    return np.frombuffer(data, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
