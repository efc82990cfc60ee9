"""Converting text to times in UTC, and writing times of any year, by columns."""

import re

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, compute

UTC = pa.timestamp("us", tz="UTC")

DATE = (
    r"(?:(?:\d{3}[1-9]|\d{2}[1-9]\d|\d[1-9]\d{2}|[1-9]\d{3})-"
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    r"|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
)
CLOCK = r"(?:[01]\d|2[0-3])(?::[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?)?"
ZONE = r"(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"
VALID = f"^{DATE}(?:[T ]{CLOCK}{ZONE}?)?$"
ZONED = re.compile(rf"[T ].*{ZONE}$")
ONLY_DATE = 10
FEW = 100

# The first and the last microsecond that both PostgreSQL and Python's datetime know. With an offset, a time on the
# first or the last day can lie outside of them.
FIRST = -62_135_596_800_000_000
LAST = 253_402_300_799_999_999
FIRST_DAY, LAST_DAY = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")


def convert(text: Column) -> Column:
    """Convert texts to times. The result is null where there is no text, or where it is not a time."""
    return within_range(quickly(text))


def quickly(text: Column) -> Column:
    """Convert the texts with one cast of Arrow if all have one form, with a zone or without, as in most files.
    Otherwise bring all of them into one form first."""
    first = next((value for value in text.slice(0, FEW).to_pylist() if value is not None), "")
    kind = UTC if ZONED.search(first) else pa.timestamp("us")
    try:
        return compute.cast(text, kind).cast(UTC)
    except pa.ArrowInvalid:
        return in_all_forms(text)


def in_all_forms(text: Column) -> Column:
    valid = compute.match_substring_regex(text, VALID)
    text = compute.if_else(valid, text, pa.scalar(None, pa.string()))
    text = compute.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    only_date = compute.equal(compute.binary_length(text), ONLY_DATE)
    zoned = compute.match_substring_regex(text, ZONED.pattern)
    ending = compute.if_else(only_date, "T00:00Z", compute.if_else(zoned, "", "Z"))
    return compute.cast(compute.binary_join_element_wise(text, ending, ""), UTC)


def within_range(times: Column) -> Column:
    numbers = times.cast(pa.int64())
    extremes = compute.min_max(numbers).as_py()
    if extremes["min"] is None or (extremes["min"] >= FIRST and extremes["max"] <= LAST):
        return times
    inside = compute.and_(compute.greater_equal(numbers, FIRST), compute.less_equal(numbers, LAST))
    return compute.if_else(inside, times, pa.scalar(None, times.type))


def with_years(text: Column, times: Column, endings: Column | None = None) -> Column:
    """Return the texts of dates or times, in which years before the first and after 9999 stand as PostgreSQL reads
    them. `endings` are the offsets behind them, if times without a zone are the clock of one."""
    is_date = pa.types.is_date(times.type)
    numbers = times.cast(pa.date32()).cast(pa.int32()) if is_date else times.cast(pa.int64())
    moments = compute.fill_null(numbers, 0).to_numpy().astype(f"M8[{'D' if is_date else times.type.unit}]")
    days = moments.astype("M8[D]")
    odd = (days < FIRST_DAY) | (days > LAST_DAY)
    if not odd.any():
        return text
    zone = "" if is_date or times.type.tz is None else "Z"
    zones = [zone] * len(text) if endings is None else endings.to_pylist()
    written = [with_era(str(moments[row]).replace("T", " "), zones[row]) for row in np.flatnonzero(odd)]
    return compute.replace_with_mask(text, pa.array(odd), pa.array(written, pa.string()))


def with_era(text: str, zone: str) -> str:
    year, rest = re.fullmatch(r"(-?\d+)(-.*)", text).groups()  # type: ignore[union-attr]  # NumPy writes a year first
    return f"{text}{zone}" if int(year) > 0 else f"{1 - int(year):04}{rest}{zone} BC"
