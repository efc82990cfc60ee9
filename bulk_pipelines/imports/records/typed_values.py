"""Values of tables that have types of their own. Those keep their type that the column would hold as they stand, and
all others become text, which is judged value by value, as if it had stood in a CSV file."""

import re
from typing import Any

import pyarrow as pa

from bulk_pipelines.columns import binary_forms, conversion, timestamps
from bulk_pipelines.columns.arrow import Column, compute, numbers_of
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.formats.typed.arrow_nested import array_of
from bulk_pipelines.formats.typed.arrow_plain import is_list
from bulk_pipelines.formats.typed.arrow_text import text_of
from bulk_pipelines.formats.typed.arrow_values import is_utc
from bulk_pipelines.resources.declaration import Column as Declared

DIGITS = 6
"""How many digits of a second are kept, if the type of a column tells no other number."""
PRECISION = re.compile(r"\((\d)\)")
MOST_DIGITS = 76
"""How many digits the widest of Arrow's decimal numbers has."""
FIRST_UNKNOWN = float(1 << 63)
"""The first number that is no 64-bit one."""
FIRST_DAY, LAST_DAY = -2_440_588, 2_145_042_905
"""The first and the last day that PostgreSQL knows, counted from 1970 on."""


def as_kind(values: Column, column: Declared, *, compared: bool = False) -> Column:
    """Return the values in the type of the column's kind if it would hold all of them as they stand, or as text. Lists
    that are compared, because they belong to a key or a reference, are compared as texts."""
    stored = conversion.STORED[column.kind]
    given = values.storage if isinstance(values, pa.ExtensionArray) else values
    found = None
    if pa.types.is_timestamp(stored):
        found = moments(given, stored, column) if pa.types.is_timestamp(given.type) else None
    elif pa.types.is_date32(stored):
        found = days(given) if pa.types.is_date32(given.type) else None
    elif given.type == stored:
        found = given if is_readable(given) else None
    elif pa.types.is_integer(stored) and is_number(given.type):
        found = whole(given, stored)
    elif pa.types.is_floating(stored) and (pa.types.is_integer(given.type) or pa.types.is_floating(given.type)):
        found = floats(given, stored)
    elif column.kind is ColumnKind.ARRAY and is_list(given.type):
        found = given if not compared and goes_as_it_is(given, column) else array_of(given)
    return text_of(values) if found is None else found


def goes_as_it_is(lists: Column, column: Declared) -> bool:
    """Tell whether lists can be given to an array as they are: their elements are those of the array."""
    plain = column.exact_type == column.base_type and not column.rules
    wanted = binary_forms.element_type(column.base_type) if plain else None
    if wanted is None or pa.types.is_map(lists.type) or lists.type.value_type != wanted:
        return False
    return is_readable(lists) and (not pa.types.is_date32(wanted) or days(lists.flatten()) is not None)


def is_readable(values: Column) -> bool:
    """Tell whether all texts of lists are UTF-8; other texts are judged one by one."""
    if pa.types.is_list(values.type) and pa.types.is_string(values.type.value_type):
        try:
            values.flatten().validate(full=True)
        except pa.ArrowInvalid:
            return False
    return True


def moments(values: Column, stored: Any, column: Declared) -> Column | None:
    """Return times as the kind holds them; one without a zone is in UTC. Return None if any of them is finer than the
    column, if PostgreSQL does not know it, or if the column would lose its zone."""
    if stored.tz is None and values.type.tz is not None and not is_utc(values.type.tz):
        return None
    try:
        found = values.cast(pa.timestamp("us", tz=values.type.tz)).cast(stored)
    except pa.ArrowInvalid:
        return None
    told = PRECISION.search(column.exact_type)
    unit = 10 ** (DIGITS - int(told[1])) if told else 1
    if unit > 1 and (numbers_of(found.cast(pa.int64())) % unit).any():
        return None
    return found if timestamps.within_range(found).null_count == found.null_count else None


def days(values: Column) -> Column | None:
    extremes = compute.min_max(values.cast(pa.int32())).as_py()
    known = extremes["min"] is None or (extremes["min"] >= FIRST_DAY and extremes["max"] <= LAST_DAY)
    return values if known else None


def whole(values: Column, stored: pa.DataType) -> Column:
    """Return numbers as whole ones. If any is none, or too large, all become texts; in these, a number that is whole
    has no fraction, so that it comes to the same beside any other."""
    wide: pa.DataType = pa.decimal256(MOST_DIGITS, 0)
    try:
        if pa.types.is_decimal(values.type) and values.type.scale < 0:
            values = values.cast(wide)
        return values.cast(stored)
    except pa.ArrowInvalid:
        pass
    if pa.types.is_integer(values.type):
        return text_of(values)
    if pa.types.is_floating(values.type):
        wide, values = pa.int64(), values.cast(pa.float64())
    fits = compute.equal(compute.trunc(values), values)
    if pa.types.is_floating(values.type):
        fits = compute.and_(fits, compute.less(compute.abs(values), FIRST_UNKNOWN))
    plain = compute.if_else(fits, values, pa.scalar(None, values.type)).cast(wide).cast(pa.string())
    return compute.coalesce(plain, text_of(values))


def floats(values: Column, stored: pa.DataType) -> Column | None:
    """Return numbers of binary digits as the kind holds them. Return None if any is too large for that, or so small
    that it would become zero. (Decimal ones are read from their texts: Arrow does not come to the nearest number.)"""
    try:
        found = values.cast(stored)
    except pa.ArrowInvalid:
        return None
    if found.type != values.type:
        given = values.cast(pa.float64())
        grown = compute.and_not(compute.is_inf(found), compute.is_inf(given))
        gone = compute.and_not(compute.equal(found, 0.0), compute.equal(given, 0.0))
        if compute.any(compute.or_(grown, gone)).as_py():
            return None
    return found


def is_number(given: pa.DataType) -> bool:
    return bool(pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given))
