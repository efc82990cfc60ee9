"""Converting the values of a file to what their column kind means: text to ids, flags, times and lists, by columns."""

import pyarrow as pa

from bulk_pipelines.columns import arrow, text_copy, text_lists, timestamps, uuids
from bulk_pipelines.columns.arrow import Column, compute, nothing
from bulk_pipelines.columns.kinds import ColumnKind

FLAGS = pa.array(["true", "t", "1", "false", "f", "0"])
TRUE_ONES = 3
PLAIN_VALUE = r"(?:\[\s*)*(?:[-+.0-9eE]+|true|false|null|NaN|-?Infinity)?\s*(?:\]\s*)*"
PLAIN_VALUES = rf"^\s*\[\s*{PLAIN_VALUE}(?:,\s*{PLAIN_VALUE})*\]\s*$"
# PostgreSQL has no array of empty arrays, and would read an empty one.
EMPTY_INSIDE = r"\[\s*\]\s*[,\]]"
# Texts that Arrow or `timestamps` would read in another way than PostgreSQL. Arrow takes hexadecimal digits for the
# bits of a negative number; and `timestamps` cuts off what is finer than a microsecond. The characters, of which such
# texts have at least one, are looked for first.
UNLIKE = dict.fromkeys((ColumnKind.SMALLINT, ColumnKind.INTEGER, ColumnKind.BIGINT), (b"xX", "[xX]")) | {
    ColumnKind.TIMESTAMP: (b".", r"\.\d{6}\d*[1-9]")
}

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
        case _:
            return loosely(text, kind)


def loosely(text: Column, kind: ColumnKind) -> Column:
    """Convert texts to the values of their kind if all of them have its plain form. Otherwise return the texts, which
    the table reads itself: it knows forms such as `infinity`, and says what is wrong with the others."""
    if text.null_count == len(text):
        return nothing(len(text), STORED[kind])
    try:
        values = plainly(text, kind)
    except pa.ArrowInvalid:
        return text
    return text if values.null_count > text.null_count else values


def plainly(text: Column, kind: ColumnKind) -> Column:
    characters, unlike = UNLIKE.get(kind, (b"", ""))
    if arrow.has_any(text, characters) and compute.any(compute.match_substring_regex(text, unlike)).as_py():
        return text
    match kind:
        case ColumnKind.REAL | ColumnKind.DOUBLE:
            return floats(text, kind.arrow)
        case ColumnKind.UUID | ColumnKind.BOOLEAN | ColumnKind.TIMESTAMP:
            return from_text(text, kind)
        case ColumnKind.ARRAY:
            return from_json_arrays(text)
        case _ if pa.types.is_string(kind.arrow):
            return text
        case _:
            return text.cast(kind.arrow)


def from_json_arrays(text: Column) -> Column:
    """Write JSON arrays as PostgreSQL writes arrays, also those of arrays. Every other text stays as it is. (Whether
    brackets and commas stand where they should is left to PostgreSQL.)"""
    if not arrow.has_any(text, b"["):
        return text
    of_values = compute.fill_null(compute.match_substring_regex(text, PLAIN_VALUES), False)
    of_values = compute.and_not(of_values, compute.fill_null(compute.match_substring_regex(text, EMPTY_INSIDE), False))
    if compute.any(of_values).as_py():
        braces = compute.replace_substring(compute.replace_substring(text, "[", "{"), "]", "}")
        text = compute.if_else(of_values, braces, text)
    of_strings = compute.fill_null(compute.match_substring_regex(text, text_lists.WITH_NULLS), False)
    if compute.any(of_strings).as_py():
        lists = text_lists.parse(compute.if_else(of_strings, text, pa.scalar(None, pa.string())), text_lists.WITH_NULLS)
        text = compute.if_else(of_strings, text_copy.lists(lists), text)
    nested = compute.fill_null(compute.match_substring_regex(text, text_lists.NESTED), False)
    if compute.any(nested).as_py():
        written = [text_lists.as_array(each) for each in text.filter(nested).to_pylist()]
        text = compute.replace_with_mask(text, nested, pa.array(written, pa.string()))
    return text


def floats(text: Column, kind: pa.DataType) -> Column:
    """Read floating-point numbers. A number that is too large, or so small that it would become zero, is left to the
    table, which refuses it."""
    values = text.cast(kind)
    if compute.any(compute.is_inf(values)).as_py():
        return text
    zeros = compute.fill_null(compute.equal(values, 0.0), False)
    return text if compute.any(compute.match_substring_regex(text.filter(zeros), "^[^eE]*[1-9]")).as_py() else values
