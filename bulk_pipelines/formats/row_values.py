"""The values of the rows of a table, as what was told of the file makes them: some spellings are no values, and numbers
get a decimal comma beside texts that have one."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, Mask, compute, to_mask
from bulk_pipelines.formats import rows
from bulk_pipelines.formats.files.values import with_comma
from bulk_pipelines.formats.typed.arrow_text import text_of


@dataclass(frozen=True)
class RowValues:
    """How the values of `width` fields are to be taken. `nulls` are the spellings of no value. `commas` are the places
    of the fields whose numbers have a decimal comma where they are texts: what is a number in the file gets one where
    it becomes a text."""

    width: int
    nulls: tuple[str, ...] = ()
    commas: Collection[int] = ()

    def given(self, batch: pa.RecordBatch) -> Iterator[Column]:
        """Yield the values of each field, in the types that they have in the file."""
        own = len(rows.OWN)
        tells_numbers = batch.num_columns > own + self.width  # a sheet does, because all of its cells are texts
        for place in range(self.width):
            values = without(batch.column(own + place), self.nulls)
            if tells_numbers and place in self.commas:
                values = compute.if_else(batch.column(own + self.width + place), with_comma(values), values)
            yield values

    def texts(self, batch: pa.RecordBatch) -> Iterator[Column]:
        """Yield the values of each field as texts."""
        for place, values in enumerate(self.given(batch)):
            yield self.as_text(place, values, text_of(values))

    def as_text(self, place: int, given: Column, text: Column) -> Column:
        """Return what values became, with a comma if they were numbers and became texts."""
        is_written = place in self.commas and is_number(given.type) and pa.types.is_string(text.type)
        return with_comma(text) if is_written else text


def without(values: Column, nulls: tuple[str, ...]) -> Column:
    """Return the values without those that are spelt as no value. If there are any among values that are no numbers,
    the others become texts."""
    if not nulls:
        return values
    if is_number(values.type):
        none = same_numbers(values, nulls)
        return values.take(pa.array(np.arange(len(values)), mask=none)) if none.any() else values
    text = text_of(values)
    spelt = compute.is_in(text, pa.array(nulls))
    return compute.if_else(spelt, pa.scalar(None, pa.string()), text) if compute.any(spelt).as_py() else values


def same_numbers(values: Column, texts: tuple[str, ...]) -> Mask:
    """Tell which numbers one of the texts means: -999 means -999.00, too."""
    kind = pa.float32() if pa.types.is_float16(values.type) else values.type
    found: Mask = np.zeros(len(values), dtype=bool)
    for text in texts:
        with suppress(pa.ArrowInvalid):  # it is no such number
            found |= to_mask(compute.is_in(values.cast(kind), pa.array([text]).cast(kind)))
    return found


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
