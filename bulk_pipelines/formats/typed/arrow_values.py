"""The texts of Arrow's plain values: numbers, times, bytes, ids. Each is what PostgreSQL, and an import, can read."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bulk_pipelines.columns import timestamps, uuids
from bulk_pipelines.columns.arrow import Column, Numbers, bitmap, buffer, compute, numbers_of, text_offsets

UTC = frozenset({"utc", "z", "gmt", "zulu", "etc/utc", "etc/gmt", "etc/zulu", "+00:00", "-00:00", "+0000", "-0000"})
UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}
A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
MONTHS_DAYS_NANOSECONDS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


def text_of_plain(values: Column) -> Column:
    if isinstance(values, pa.ExtensionArray):
        return uuids.to_text(values)
    for holds, write in WRITERS:
        if holds(values.type):
            return write(values)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def is_utc(zone: str) -> bool:
    return zone.lower() in UTC


def moments(values: Column) -> Column:
    """Write times. One of a zone is the clock of the zone, with what it is before or behind UTC."""
    zone, endings = values.type.tz, None
    if zone is not None:
        endings = pa.repeat(pa.scalar("Z"), len(values))
        there = values.cast(pa.timestamp(values.type.unit))
        if not is_utc(zone):
            there = compute.local_timestamp(values)
            endings = offsets(there, values)
        values = there
    text = compute.strftime(values, format="%Y-%m-%dT%H:%M:%S")
    text = text if endings is None else compute.binary_join_element_wise(text, endings, "")
    return timestamps.with_years(text, values, endings)


def offsets(there: Column, values: Column) -> Column:
    """Return how far the clocks of a zone are from UTC, as `+05:30`. A zone has few such offsets."""
    unit = A_DAY[values.type.unit] // A_DAY["s"]
    seconds = (numbers_of(there.cast(pa.int64())) - numbers_of(values.cast(pa.int64()))) // unit
    found, places = np.unique(seconds, return_inverse=True)
    texts: Column = pa.array([offset(each) for each in found.tolist()], pa.string())
    return texts.take(pa.array(places))


def offset(seconds: int) -> str:
    minutes, rest = divmod(abs(seconds), 60)
    written = f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{written}:{rest:02}" if rest else written


def days(values: Column) -> Column:
    """Write dates. One of Arrow's types counts milliseconds, so that it may have a time of day as well."""
    if pa.types.is_date64(values.type):
        times = values.cast(pa.timestamp("ms"))
        if (numbers_of(times.cast(pa.int64())) % A_DAY["ms"]).any():
            return moments(times)
        values = values.cast(pa.date32())
    return timestamps.with_years(values.cast(pa.string()), values)


def clocks(values: Column) -> Column:
    """Write times of day. Arrow does not write the end of the day, which PostgreSQL knows."""
    counted = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    ends = compute.equal(counted, A_DAY[values.type.unit])
    return compute.if_else(ends, "24:00:00", values.cast(pa.string()))


def durations(values: Column) -> Column:
    unit, counted = values.type.unit, values.cast(pa.int64())
    if unit == "ns":
        return microseconds(counted)
    return compute.binary_join_element_wise(counted.cast(pa.string()), UNITS[unit], " ")


def microseconds(nanoseconds: Column) -> Column:
    """Write durations in microseconds; those that are finer in seconds with nine digits behind the point."""
    numbers = numbers_of(nanoseconds)
    text = compute.binary_join_element_wise(pa.array(numbers // 1000).cast(pa.string()), UNITS["us"], " ")
    finer = numbers % 1000 != 0
    if finer.any():
        written = [
            f"{'-' if n < 0 else ''}{abs(n) // 10**9}.{abs(n) % 10**9:09} seconds" for n in numbers[finer].tolist()
        ]
        text = compute.replace_with_mask(text, pa.array(finer), pa.array(written))
    return compute.if_else(nanoseconds.is_valid(), text, pa.scalar(None, pa.string()))


def intervals(values: Column) -> Column:
    """Write months, days and a duration; Arrow has no text for them."""
    data: Any = values.buffers()[1]
    parts = np.frombuffer(data, MONTHS_DAYS_NANOSECONDS)[values.offset : values.offset + len(values)]
    months, passed = (pa.array(parts[name].copy()).cast(pa.string()) for name in ("months", "days"))
    rest = microseconds(pa.array(parts["nanoseconds"].copy()))
    text = compute.binary_join_element_wise(months, " months ", passed, " days ", rest, "")
    return compute.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))


def hexadecimal(values: Column) -> Column:
    """Write bytes as `\\x` and two digits for each."""
    values = values.cast(pa.binary())
    places: npt.NDArray[np.int32] = text_offsets(values)
    data: Any = values.buffers()[2]
    given = np.frombuffer(b"" if data is None else data, np.uint8)[places[0] : places[-1]]
    ends: Numbers = (places - places[0]).astype(np.int64) * 2
    missing = bitmap(values.is_valid().to_numpy(zero_copy_only=False)) if values.null_count else None
    digits = pa.StringArray.from_buffers(
        len(values), buffer(ends.astype(np.int32)), buffer(uuids.PAIRS[given].view(np.uint8)), missing
    )
    return compute.binary_join_element_wise("\\x", digits, "")


WRITERS = (
    (pa.types.is_binary, hexadecimal),
    (pa.types.is_fixed_size_binary, hexadecimal),
    (pa.types.is_timestamp, moments),
    (pa.types.is_date, days),
    (pa.types.is_time, clocks),
    (pa.types.is_duration, durations),
    (pa.types.is_interval, intervals),
)
