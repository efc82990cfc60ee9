"""Reading arrays as PostgreSQL writes them, `{1,2,NULL}` or `{"a b",c}`, by columns."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bulk_pipelines.columns.arrow import Bytes, Column, Mask, Numbers, bitmap, buffer, packed, text_bytes, text_offsets

OPEN, CLOSE, COMMA, QUOTE, ESCAPE, SPACE = b'{},"\\ '
NULL = np.frombuffer(b"null", dtype=np.uint8)


def lists(text: Column) -> Column | None:
    """Return the elements of each array as a list of texts. Return None if any array is not written plainly: if it has
    several dimensions or bounds, escaped characters, white space outside of quotes, or is no array at all."""
    text = packed(text)
    given: Mask = text.is_valid().to_numpy(zero_copy_only=False)
    data, offsets = text_bytes(text), text_offsets(text).astype(np.int64)
    offsets -= offsets[0]
    starts, stops = offsets[:-1][given], offsets[1:][given]
    quotes = data == QUOTE
    quoted = np.bitwise_xor.accumulate(quotes.view(np.uint8)).view(np.bool_)
    if not is_plain(data, quoted, starts, stops):
        return None
    commas = np.flatnonzero((data == COMMA) & ~quoted)
    full = stops - starts > len("{}")
    begins = np.sort(np.concatenate((starts[full], commas))) + 1
    ends = np.sort(np.concatenate((commas, stops[full] - 1)))
    in_quotes = data[begins] == QUOTE
    lengths = ends - begins - 2 * in_quotes
    # An element without quotes has a character. One in quotes has a quote at either end, and no other.
    if (lengths < ~in_quotes).any() or (data[ends[in_quotes] - 1] != QUOTE).any():
        return None
    if np.count_nonzero(quotes) != 2 * np.count_nonzero(in_quotes):
        return None
    kept = ~quotes
    for marks in (commas, starts, stops - 1):
        kept[marks] = False
    valid = ~is_null(data, begins, lengths, in_quotes)
    elements = pa.StringArray.from_buffers(
        len(begins), buffer(edges(lengths)), buffer(data[kept]), None if valid.all() else bitmap(valid)
    )
    counts = np.zeros(len(text), dtype=np.int64)
    counts[given] = full + np.diff(np.searchsorted(commas, offsets))[given]
    missing: Any = None if given.all() else pa.array(~given)
    places: Any = pa.array(edges(counts))
    return pa.ListArray.from_arrays(places, elements, mask=missing)


def is_plain(data: Bytes, quoted: Mask, starts: Numbers, stops: Numbers) -> bool:
    """Tell whether each array stands in one pair of braces, with nothing outside of quotes but plain elements."""
    if (stops - starts < len("{}")).any() or (data[starts] != OPEN).any() or (data[stops - 1] != CLOSE).any():
        return False
    if quoted[stops - 1].any() or (data == ESCAPE).any() or ((data <= SPACE) & ~quoted).any():
        return False
    braces = ((data == OPEN) | (data == CLOSE)) & ~quoted
    return bool(np.count_nonzero(braces) == 2 * len(starts))


def is_null(data: Bytes, begins: Numbers, lengths: Numbers, in_quotes: Mask) -> Mask:
    """Tell which elements stand for no value."""
    found: Mask = (lengths == len(NULL)) & ~in_quotes
    found[found] = ((data[begins[found][:, None] + np.arange(len(NULL))] | 0x20) == NULL).all(axis=1)
    return found


def edges(lengths: Numbers) -> npt.NDArray[np.int32]:
    """Return where pieces of these lengths begin, laid one behind the other, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
