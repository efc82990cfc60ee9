"""Values of Arrow's types, each with the text that somebody would write for it in a CSV file."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
INDIA = timezone(timedelta(hours=5, minutes=30))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WHOLE_KINDS = ("smallint", "integer", "bigint")


@dataclass(frozen=True)
class Typed:
    """A type of Arrow, values as it stores them, and how each is written for a column of some type."""

    kind: pa.DataType
    values: st.SearchStrategy[Any]
    text: Callable[[Any, str], str]
    targets: tuple[str, ...]
    parquet: bool = True
    """Whether Parquet has the type."""

    def column(self, values: list[Any]) -> Any:
        storage: Any = self.kind
        if pa.types.is_temporal(storage) and not pa.types.is_interval(storage):
            width = pa.int64() if storage.bit_width == 64 else pa.int32()
            return pa.array(values, width).view(storage)
        return pa.array(values, storage)


def number(value: Any, target: str) -> str:
    """Write a number; for a column of whole numbers, one that is whole without a fraction."""
    is_whole = target in WHOLE_KINDS and math.isfinite(value) and abs(value) < 1 << 63 and value == int(value)
    text = str(int(value) if is_whole else value)
    return text if isinstance(value, Decimal) else text.removesuffix(".0")


def narrow(value: Any, target: str) -> str:
    """Write a number of 32 bits or fewer; one that a wider number holds as it is with all its digits."""
    return number(float(value) if target == "double precision" else np.float32(value), target)


def hexadecimal(value: bytes, _: str) -> str:
    return "\\x" + value.hex()


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(element: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
    """Write a list as PostgreSQL writes arrays, with every element in quotes."""

    def text(value: Any, target: str) -> str:
        if isinstance(value, list):
            return "{" + ",".join("NULL" if each is None else text(each, target) for each in value) + "}"
        return quoted(element(value, target.removesuffix("[]")))

    return text


def digits_of(value: int, places: int) -> str:
    return f".{value:0{places}}" if places else ""


def moment(unit: str, zone: str | None) -> Callable[[Any, str], str]:
    places = UNITS[unit]

    def text(value: int, _: str) -> str:
        seconds, rest = divmod(value, 10**places)
        found = EPOCH + timedelta(seconds=seconds)
        if zone is None:
            return f"{found:%Y-%m-%dT%H:%M:%S}" + digits_of(rest, places)
        found = found.astimezone(INDIA if zone == "+05:30" else ZoneInfo(zone))
        offset = found.utcoffset() or timedelta()
        behind = f"-{-offset}" if offset < timedelta() else f"+{offset}"
        return f"{found:%Y-%m-%dT%H:%M:%S}{digits_of(rest, places)}{behind}"

    return text


def clock(unit: str) -> Callable[[Any, str], str]:
    places = UNITS[unit]

    def text(value: int, _: str) -> str:
        seconds, rest = divmod(value, 10**places)
        hours, seconds = divmod(seconds, 3600)
        return f"{hours:02}:{seconds // 60:02}:{seconds % 60:02}" + digits_of(rest, places)

    return text


def duration(unit: str) -> Callable[[Any, str], str]:
    places = UNITS[unit]

    def text(value: int, _: str) -> str:
        seconds, rest = divmod(abs(value), 10**places)
        return ("-" if value < 0 else "") + f"{seconds}{digits_of(rest, places)} seconds"

    return text


def day(value: int, _: str) -> str:
    return str(date(1970, 1, 1) + timedelta(days=value))


def day_of_milliseconds(value: int, target: str) -> str:
    return day(value // 86_400_000, target) if value % 86_400_000 == 0 else moment("ms", None)(value, target)


def fine(least: int, most: int, places: int) -> st.SearchStrategy[int]:
    """Draw times of a unit, many of them with few digits behind the second."""
    unit = 10**places
    rests = st.integers(0, unit - 1) | st.sampled_from([0, 0, unit // 2, 6 * unit // 10, unit - 1, unit // 1000])
    return st.builds(lambda seconds, rest: seconds * unit + rest, st.integers(least, most), rests)


def moments_of(unit: str) -> st.SearchStrategy[int]:
    """Draw moments from the year 1900 on, or 1823 of nanoseconds; and ends of days and years."""
    near = fine(-2_000_000_000, 4_000_000_000, UNITS[unit])
    ends = fine(1_767_657_599, 1_767_657_600, UNITS[unit])
    return near | ends


def temporal(kind: Any, *arguments: str | None) -> pa.DataType:
    made: pa.DataType = kind(*arguments)
    return made


WHOLE = ("smallint", "integer", "bigint", "numeric", "numeric(6,2)", "text")
NUMBERS = ("smallint", "integer", "bigint", "numeric", "numeric(6,2)", "real", "double precision")
DAYS = ("date", "timestamp", "timestamp(0)", "timestamptz", "text")
MOMENTS = ("date", "time", "timestamp", "timestamp(0)", "timestamptz", "timestamptz(3)")
SOME_NUMBERS = [0.0, -0.0, 1.0, 2.5, 1e20, 1e300, 1e-300, 0.1, float("nan"), float("inf"), -32768.0, 32768.0]


def whole(kind: Any) -> Typed:
    bits = kind.bit_width
    least, most = (0, (1 << bits) - 1) if str(kind).startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Typed(kind, st.integers(least, most) | st.integers(0, 100), lambda value, _: str(value), (*WHOLE, "boolean"))


def exact(precision: int, scale: int, kind: Callable[[int, int], pa.DataType] = pa.decimal128) -> Typed:
    most = 10**precision - 1
    drawn = st.integers(-most, most) | st.integers(-9, 9).map(lambda value: value * 10 ** max(scale, 0))
    values = drawn.filter(lambda value: abs(value) <= most).map(lambda value: Decimal(f"{value}E{-scale}"))
    return Typed(kind(precision, scale), values, number, (*NUMBERS, "text"), scale >= 0)


TYPED = [
    *(whole(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64())),
    exact(12, 2),
    exact(18, 8),
    exact(38, 20),
    exact(5, -2),
    exact(50, 2, pa.decimal256),
    Typed(pa.float64(), st.floats() | st.sampled_from(SOME_NUMBERS), number, NUMBERS),
    Typed(pa.float32(), st.floats(width=32), narrow, NUMBERS),
    Typed(pa.float16(), st.floats(width=16), narrow, NUMBERS),
    Typed(pa.bool_(), st.booleans(), lambda value, _: str(value).lower(), ("boolean", "integer", "text")),
    Typed(pa.date32(), st.integers(-719_162, 2_932_896), day, DAYS),
    *(
        Typed(temporal(pa.timestamp, unit, zone), moments_of(unit), moment(unit, zone), MOMENTS)
        for unit in UNITS
        for zone in (None, "UTC", "America/New_York", "+05:30", "Europe/London")
    ),
    *(
        Typed(kind, fine(0, 86_399, UNITS[kind.unit]), clock(kind.unit), ("time", "time(2)", "timetz"))
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    ),
    *(
        Typed(
            temporal(pa.duration, unit),
            fine(-9_999_999, 9_999_999, UNITS[unit]),
            duration(unit),
            ("interval", "interval(0)"),
        )
        for unit in UNITS
    ),
    Typed(
        pa.date64(),
        st.integers(-25_000, 50_000).map(lambda days: days * 86_400_000) | st.integers(0, 10**12),
        day_of_milliseconds,
        ("date", "timestamp", "timestamptz"),
        parquet=False,
    ),
]


def listed(kind: Any, values: st.SearchStrategy[Any], text: Callable[[Any, str], str], *targets: str) -> Typed:
    return Typed(pa.list_(kind), st.lists(st.none() | values, max_size=3), array(text), targets)


WORDS = st.sampled_from(["red", "dark blue", "", "NULL", 'a"b', "a,b", "\\", "{}", "two\nlines", "é", "abc "])
CENTS = st.integers(-99_999, 99_999).map(lambda cents: Decimal(f"{cents}E-2"))
FRACTIONS = st.floats(allow_nan=True) | st.sampled_from(SOME_NUMBERS)
SQUARES = st.lists(st.none() | st.integers(-9, 9), min_size=2, max_size=2)
MADE: Any = pa.MonthDayNano
INTERVALS = st.tuples(st.integers(-99, 99), st.integers(-99, 99), fine(-99_999, 99_999, 9)).map(MADE)
FEW_BYTES = st.binary(max_size=5)
WITH_BYTES = [pa.binary(), pa.large_binary(), pa.binary_view()]
TYPED += [
    Typed(
        pa.uuid(), st.uuids().map(lambda each: each.bytes), lambda value, _: str(UUID(bytes=value)), ("uuid", "text")
    ),
    *(Typed(kind, FEW_BYTES, hexadecimal, ("bytea",)) for kind in WITH_BYTES),
    *(
        Typed(kind, WORDS, lambda value, _: value, ("text", "varchar(3)"))
        for kind in (pa.large_string(), pa.string_view())
    ),
    *(listed(kind, FEW_BYTES, hexadecimal, "bytea[]") for kind in WITH_BYTES),
    listed(pa.string(), WORDS, lambda value, _: value, "text[]", "varchar(3)[]"),
    listed(pa.string_view(), WORDS, lambda value, _: value, "text[]", "varchar(3)[]"),
    listed(pa.int64(), st.integers(-(1 << 33), 1 << 33), number, "integer[]", "bigint[]", "numeric[]", "text[]"),
    listed(pa.float64(), FRACTIONS, number, "double precision[]", "real[]", "numeric[]"),
    listed(pa.decimal128(7, 2), CENTS, lambda value, _: str(value), "numeric[]", "numeric(4,1)[]", "real[]"),
    listed(pa.bool_(), st.booleans(), lambda value, _: str(value), "boolean[]"),
    listed(pa.list_(pa.int32()), SQUARES, number, "integer[]"),
    Typed(
        pa.month_day_nano_interval(),
        INTERVALS,
        lambda value, _: f"{value[0]} months {value[1]} days {duration('ns')(value[2], _)}",
        ("interval", "interval(0)"),
        parquet=False,
    ),
]


@dataclass(frozen=True)
class Field:
    """A field of a file: its type, the type of its column, and its values."""

    typed: Typed
    target: str
    values: list[Any]


@st.composite
def fields(draw: st.DrawFn, *, parquet: bool) -> list[Field]:
    """Draw fields, at most one for each type of column."""
    fitting = [typed for typed in TYPED if typed.parquet or not parquet]
    found: dict[str, Field] = {}
    for _ in range(draw(st.integers(1, 12))):
        typed = draw(st.sampled_from(fitting))
        target = draw(st.sampled_from(typed.targets))
        found[target] = Field(typed, target, draw(st.lists(typed.values, min_size=1, max_size=4)))
    return list(found.values())
