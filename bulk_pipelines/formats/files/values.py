"""Values that are made from those of a file: dates and numbers in other forms than PostgreSQL reads."""

from collections.abc import Mapping

import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, Mask, compute, to_mask

Made = tuple[Mapping[str, Column], Mapping[int, tuple[str, str]]]
"""The columns that expressions made; and for each row at which one failed, the column and what PostgreSQL said."""
BETWEEN_THOUSANDS = r"[. '\x{2019}\x{a0}\x{202f}]"
"""What may stand between thousands where the decimal sign is a comma: a point, an apostrophe or a space, also one at
which no line is broken."""
WITH_COMMA = (
    rf"^\s*(?:[+-]?(?:[1-9]\d{{0,2}}(?:{BETWEEN_THOUSANDS}\d{{3}})+|\d+)?(?:,\d*)?(?:[eE][+-]?\d+)?"
    r"|(?i:nan|[+-]?inf(?:inity)?))\s*$"
)
CLOCK_PARTS = "HIMSpTX"


def dated(text: Column, form: str) -> Column:
    """Bring dates of a form into ISO 8601. The result is null where a value is no date of this form: one that the form
    would not write like this, such as 31.02.2026, is none."""
    trimmed = compute.utf8_trim_whitespace(text)
    times = compute.strptime(trimmed, format=form, unit="us", error_is_null=True)
    same = compute.equal(plainly(compute.strftime(times, format=form)), plainly(trimmed))
    times = compute.if_else(compute.fill_null(same, False), times, pa.scalar(None, pa.timestamp("us")))
    has_clock = any(f"%{part}" in form for part in CLOCK_PARTS)
    return compute.strftime(times, format="%Y-%m-%dT%H:%M:%S" if has_clock else "%Y-%m-%d")


def plainly(text: Column) -> Column:
    """Return dates without what may be left out or written in two ways: leading zeros, fractions of zero, and case."""
    text = compute.replace_substring_regex(text, r"\.0+\b", "")
    return compute.utf8_lower(compute.replace_substring_regex(text, r"\b0+(\d)", r"\1"))


def with_point(text: Column) -> Column:
    """Write numbers with a decimal comma as PostgreSQL does. The result is null where a value is no such number, above
    all where it has a point that does not separate thousands: behind a zero, as in 0.125, none does."""
    valid: Mask = to_mask(compute.match_substring_regex(text, WITH_COMMA))
    text = compute.if_else(pa.array(valid), text, pa.scalar(None, pa.string()))
    text = compute.replace_substring_regex(text, rf"{BETWEEN_THOUSANDS}|\s", "")
    return compute.replace_substring(text, ",", ".")


def with_comma(text: Column) -> Column:
    """Write numbers that have a decimal point with a comma. So those that a file holds as numbers stand beside those of
    its texts, and `with_point` reads both."""
    return compute.replace_substring(text, ".", ",")
