"""Writing texts in the binary form of PostgreSQL's types, by columns, if all of them are written plainly, as nearly all
values in files are. Texts of any other form are left to PostgreSQL."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bulk_pipelines.columns import array_texts, binary_copy, conversion
from bulk_pipelines.columns.arrow import Column, bitmap, buffer, compute, numbers_of, packed, text_bytes
from bulk_pipelines.columns.kinds import ColumnKind

NUMERALS = np.isin(np.arange(256), list(b"0123456789.-"))
GROUP_DIGITS = 4
"""PostgreSQL keeps numbers to the base of ten thousand."""
GROUP = np.uint64(10**GROUP_DIGITS)
MOST_DECIMALS = 16
NEGATIVE = 0x4000
JSONB_VERSION = b"\x01"
OFTEN = 4
"""If each value occurs this often on average, it is quicker to write each of them once."""
MISSING = pa.scalar(None, pa.binary())
PLAIN_TIME = r"^\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?$"
PLAIN_BYTES = r"^\\x(?:[0-9a-fA-F]{2})*$"

# The types whose arrays we write: the number that PostgreSQL has for the type of the elements, and its kind.
ELEMENTS = {
    "text": (25, ColumnKind.TEXT),
    "character varying": (1043, ColumnKind.TEXT),
    "bpchar": (1042, ColumnKind.TEXT),
    "smallint": (21, ColumnKind.SMALLINT),
    "integer": (23, ColumnKind.INTEGER),
    "bigint": (20, ColumnKind.BIGINT),
    "real": (700, ColumnKind.REAL),
    "double precision": (701, ColumnKind.DOUBLE),
    "numeric": (1700, ColumnKind.NUMERIC),
    "date": (1082, ColumnKind.DATE),
    "uuid": (2950, ColumnKind.UUID),
}


def written(text: Column, type_name: str) -> Column | None:
    """Return the values in the binary form of a type, which is named without a length. Return None if some value is not
    written plainly, or if we do not know how to write the type."""
    if pa.types.is_list(text.type):
        return lists(text, ELEMENTS[type_name.removesuffix("[]")][0])
    if type_name.endswith("[]"):
        return arrays(text, type_name.removesuffix("[]"))
    writer = WRITERS.get(type_name)
    return None if writer is None else writer(text)


def numerics(text: Column) -> Column | None:
    """Write plain numbers of up to nineteen digits. All get as many groups of digits as the longest needs: PostgreSQL
    drops groups of zeros at either end."""
    if not NUMERALS[text_bytes(packed(text))].all():
        return None
    try:
        numbers = compute.replace_substring(text, ".", "", max_replacements=1).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    decimals = decimals_of(text)
    most = int(decimals.max(initial=0))
    if most > MOST_DECIMALS:
        return None
    signed = numbers_of(numbers)
    sizes = np.abs(signed).view(np.uint64)
    behind = -(-most // GROUP_DIGITS)
    if (decimals == most).all():
        power, rest = np.uint64(10**most), np.uint64(10 ** (behind * GROUP_DIGITS - most))
        whole = sizes // power
        parts = (sizes - whole * power) * rest
    else:
        tens = np.uint64(10) ** np.arange(MOST_DECIMALS + GROUP_DIGITS, dtype=np.uint64)
        powers = tens[decimals]
        whole = sizes // powers
        parts = (sizes - whole * powers) * tens[behind * GROUP_DIGITS - decimals]
    before = groups_of(int(whole.max(initial=0)))
    layout = [("groups", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("decimals", ">i2")]
    records = np.zeros(len(text), np.dtype([*layout, ("digits", ">i2", (before + behind,))]))
    records["groups"], records["weight"], records["decimals"] = before + behind, before - 1, decimals
    records["sign"][signed < 0] = NEGATIVE
    records["digits"][:, :before] = digits_of(whole, before)
    records["digits"][:, before:] = digits_of(parts, behind)
    missing = bitmap(text.is_valid().to_numpy(zero_copy_only=False)) if text.null_count else None
    return pa.Array.from_buffers(pa.binary(records.itemsize), len(text), [missing, buffer(records.view(np.uint8))])


def digits_of(numbers: npt.NDArray[np.uint64], groups: int) -> npt.NDArray[np.uint64]:
    """Return the last groups of digits of each number."""
    found = np.empty((len(numbers), groups), dtype=np.uint64)
    for place in reversed(range(groups)):
        numbers, found[:, place] = np.divmod(numbers, GROUP)
    return found


def decimals_of(text: Column) -> npt.NDArray[np.int64]:
    """Return how many digits stand behind the point of each number."""
    points = compute.find_substring(text, ".")
    behind = compute.subtract(compute.subtract(compute.binary_length(text), points), 1)
    found: npt.NDArray[np.int32] = compute.fill_null(compute.if_else(compute.less(points, 0), 0, behind), 0).to_numpy()
    return found.astype(np.int64)


def groups_of(number: int) -> int:
    return max(1, -(-len(str(number)) // GROUP_DIGITS))


def jsonb(text: Column) -> Column:
    return compute.binary_join_element_wise(JSONB_VERSION, text.cast(pa.binary()), b"")


def times(text: Column) -> Column | None:
    """Write times of day as microseconds since midnight. Arrow reads them as moments of 1970-01-01, its day zero."""
    if compute.all(compute.match_substring_regex(text, PLAIN_TIME)).as_py() is False:
        return None
    try:
        moments = compute.binary_join_element_wise("1970-01-01T", text, "").cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    return moments.cast(pa.int64())


def hexadecimal(text: Column) -> Column | None:
    """Turn texts of `\\x` and hexadecimal digits into the bytes that they stand for."""
    if compute.all(compute.match_substring_regex(text, PLAIN_BYTES)).as_py() is False:
        return None
    digits = text_bytes(compute.replace_substring(packed(text), r"\x", "", max_replacements=1))
    # A letter has the bit 0x40, and its value is nine more than its last four bits.
    values = ((digits & 0x0F) + 9 * (digits >> 6)).reshape(-1, 2)
    lengths = compute.fill_null(compute.binary_length(text), len(r"\x")).to_numpy() // 2 - 1
    missing = bitmap(text.is_valid().to_numpy(zero_copy_only=False)) if text.null_count else None
    data = buffer((values[:, 0] << 4) | values[:, 1])
    return pa.Array.from_buffers(pa.binary(), len(text), [missing, buffer(array_texts.edges(lengths)), data])


def arrays(text: Column, element_type: str) -> Column | None:
    """Write arrays of one dimension. If most of them are like others, as lists of tags are, each is written once."""
    if element_type not in ELEMENTS:
        return None
    different = text.dictionary_encode()
    if len(different.dictionary) * OFTEN > len(text):
        return each_array(text, element_type)
    values = each_array(different.dictionary, element_type)
    return None if values is None else values.take(different.indices)


def element_type(type_name: str) -> pa.DataType | None:
    """Return the type of the elements of lists that are written as they are, for arrays of such a type."""
    known = ELEMENTS.get(type_name.removesuffix("[]")) if type_name.endswith("[]") else None
    stored = None if known is None else conversion.STORED[known[1]]
    return None if known is None or known[1] is ColumnKind.NUMERIC else stored


def lists(values: Column, number: int) -> Column:
    """Write lists as arrays; `number` is the one that PostgreSQL has for the type of their elements."""
    written = binary_copy.lists(values, number)
    return compute.if_else(values.is_valid(), written, MISSING) if values.null_count else written


def each_array(text: Column, element_type: str) -> Column | None:
    found = array_texts.lists(text)
    if found is None:
        return None
    number, kind = ELEMENTS[element_type]
    elements = found.values if kind is ColumnKind.TEXT else conversion.loosely(found.values, kind)
    if kind is not ColumnKind.TEXT and pa.types.is_string(elements.type):
        elements = written(elements, element_type)
        if elements is None:
            return None
    missing: Column = text.is_null() if text.null_count else None
    return lists(pa.ListArray.from_arrays(found.offsets, elements, mask=missing), number)


WRITERS: dict[str, Callable[[Column], Column | None]] = {
    "numeric": numerics,
    "json": lambda text: text.cast(pa.binary()),
    "jsonb": jsonb,
    "time without time zone": times,
    "bytea": hexadecimal,
}
