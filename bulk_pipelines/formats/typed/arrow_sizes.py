"""How large Arrow's values become when they are plain, which is known before any of them is written out.

A few bytes of a dictionary, of runs or of views can stand for very many: all rows may name one long text. So rows are
taken so many at a time that their plain values stay small.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, Numbers, compute
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.typed.arrow_plain import (
    as_list,
    elements_of,
    is_list,
    is_view,
    lengths_of,
    plain,
    plain_schema,
)

AT_ONCE = 65_536
"""How many rows are looked at at a time. Rows without values take no room in a file, so that it may have any number."""
MOST_BYTES = 64 << 20
"""About how many bytes the plain values of rows may have that are taken together."""
LARGEST_ROW = 256 << 20
"""How many bytes a row of plain values may have. It is unpacked as a whole."""
MOST_ELEMENTS = 64 << 20
"""How many elements of lists may be encoded in a batch. Runs may have any number of them."""
LEAST = 4
"""How many bytes each value of a list counts, at least: it takes as many in the text of the list."""
SIZED = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
VIEW = np.dtype([("length", "<i4"), ("rest", "V12")])


def is_plain(kind: pa.DataType) -> bool:
    """Tell whether values of the type take as much room in the file as here. Those of no type take none there."""
    any_kind: Any = kind
    if isinstance(kind, pa.BaseExtensionType):
        return is_plain(kind.storage_type)
    if pa.types.is_map(kind):
        return is_plain(any_kind.key_type) and is_plain(any_kind.item_type)
    if is_list(kind):
        return not is_view(kind) and is_plain(any_kind.value_type)
    if pa.types.is_struct(kind):
        return all(is_plain(field.type) for field in any_kind)
    names_texts = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    is_encoded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return not (names_texts or is_encoded or pa.types.is_null(kind))


def sizes(values: Column) -> Numbers:
    """Return how many bytes each plain value would have, about."""
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return sizes(values.storage)
    if pa.types.is_dictionary(kind):
        known = np.append(sizes(values.dictionary), LEAST)
        return taken(known, compute.fill_null(values.indices.cast(pa.int64()), len(known) - 1).to_numpy())
    if pa.types.is_run_end_encoded(kind):
        places = np.arange(values.offset, values.offset + len(values))
        return taken(sizes(values.values), np.searchsorted(values.run_ends.to_numpy(), places, side="right"))
    if pa.types.is_struct(kind):
        found: Numbers = np.full(len(values), LEAST)
        for each in values.flatten():
            found += sizes(each)
        return found
    return sizes_of_lists(values) if is_list(kind) else sizes_of_leaves(values)


def taken(numbers: Numbers, places: Numbers) -> Numbers:
    found: Numbers = numbers[places]
    return found


def sizes_of_lists(values: Column) -> Numbers:
    """Return the sizes of lists. Views may name elements several times, and in any order."""
    lengths = lengths_of(values)
    width = width_of(as_list(values).type.value_type)
    if width is not None:
        return lengths * width + LEAST
    if is_view(values.type):
        starts = np.where(lengths, values.offsets.to_numpy()[: len(values)].astype(np.int64), 0)
        elements = values.values
    else:
        starts, elements = np.cumsum(lengths) - lengths, elements_of(values)
    if len(elements) > MOST_ELEMENTS:
        raise InvalidInput("source", f"its lists have more than {MOST_ELEMENTS:,} encoded elements in a batch")
    before = np.concatenate(([0], np.cumsum(sizes(elements))))
    found: Numbers = before[starts + lengths] - before[starts] + LEAST
    return found


def width_of(kind: Any) -> int | None:
    """Return how many bytes each value has, if all have the same, as those of no type have."""
    if pa.types.is_struct(kind):
        widths = [width_of(field.type) for field in kind]
        return None if None in widths else LEAST + sum(filter(None, widths))
    if pa.types.is_null(kind):
        return LEAST
    is_simple = not pa.types.is_nested(kind) and not pa.types.is_dictionary(kind)
    try:
        return max(LEAST, kind.bit_width // 8) if is_simple else None
    except ValueError:
        return None


def sizes_of_leaves(values: Column) -> Numbers:
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        data: Any = values.buffers()[1]
        views = np.frombuffer(data, VIEW) if data else np.zeros(0, VIEW)
        return views["length"][values.offset : values.offset + len(values)].astype(np.int64) + LEAST
    if any(holds(kind) for holds in SIZED):
        found: npt.NDArray[Any] = compute.fill_null(compute.binary_length(values), 0).to_numpy()
        return found.astype(np.int64) + LEAST
    return np.full(len(values), width_of(kind) or LEAST, np.int64)


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the batch with plain values, so few at a time that these are not too large."""
    schema = plain_schema(batch.schema)
    widening = [place for place, field in enumerate(batch.schema) if not is_plain(field.type)]
    for start in range(0, batch.num_rows, AT_ONCE):
        part = batch.slice(start, AT_ONCE)
        for piece in cut(part, widening) if widening else [part]:
            yield pa.RecordBatch.from_arrays([plain(values) for values in piece.columns], schema=schema)


def cut(batch: pa.RecordBatch, widening: list[int]) -> Iterator[pa.RecordBatch]:
    """Cut the batch where the plain values of these columns become too large."""
    rows: Numbers = np.zeros(batch.num_rows, np.int64)
    for place in widening:
        rows += sizes(batch.column(place))
        if (rows > LARGEST_ROW).any():
            name = batch.schema.names[place][:80]
            raise InvalidInput(
                "source", f"a row of it unpacks to more than {LARGEST_ROW >> 20} MiB in the field {name}"
            )
    ends = np.cumsum(rows)
    start = 0
    while start < len(rows):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + MOST_BYTES, side="right")))
        yield batch.slice(start, stop - start)
        start = stop
