"""The request for a distribution. Each of its inputs names one file, and no two of them name the same one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Self

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.intake.persist import Encoded
from bulk_pipelines.engine.jobs.submission import digest_of
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import paths

KIND = "distribution"
"""What the engine calls this kind of job."""

MOST = 100_000
MOST_SIGNS = 20 * MOST
"""How many braces, brackets and commas a request may have. Each input needs four; keys may have some, too."""
LONGEST_INDEX_KEY = 100
LONGEST_ASOF = 32
FIELDS = ("indexKey", "effectiveDate", "asofindicator")


@dataclass(frozen=True, slots=True)
class Input:
    index_key: str
    effective_date: date
    asof: str

    @property
    def name(self) -> str:
        """The name of the input's file, and the key of its item. The date has eight digits, and the part behind it has
        no underscore, so different inputs have different names."""
        return f"{self.index_key}_{number_of(self.effective_date)}_{self.asof}"

    @property
    def shown(self) -> str:
        return f"{self.index_key} {self.effective_date:%Y%m%d} {self.asof}"

    def encoded(self) -> Encoded:
        """Return the item of this input. What was checked of its texts is what JSON and PostgreSQL need."""
        name, day = self.name, number_of(self.effective_date)
        text = f'{{"indexKey":{encode_basestring(self.index_key)},"effectiveDate":{day},"asofindicator":"{self.asof}"}}'
        return Encoded(name, text, payload.utf8_length("inputs", name + text))

    def as_json(self) -> dict[str, Any]:
        return dict(zip(FIELDS, (self.index_key, number_of(self.effective_date), self.asof), strict=True))


@dataclass(frozen=True)
class DistributionRequest:
    """The inputs of a distribution, in their order."""

    inputs: tuple[Input, ...]

    @classmethod
    def parse(cls, given: object) -> Self:
        """Make a request of a list of objects, `{indexKey, effectiveDate, asofindicator}` each."""
        return cls(tuple(checked(given)))

    @property
    def identity(self) -> bytes:
        """What equal requests have in common."""
        return digest_of(each.name for each in self.inputs)


def number_of(day: date) -> int:
    return day.year * 10_000 + day.month * 100 + day.day


@lru_cache(maxsize=1_000)
def day_of(number: int) -> date:
    return date(number // 10_000, number // 100 % 100, number % 100)


def stored(item: Mapping[str, Any]) -> Input:
    """Read an input back that was checked before it was stored."""
    return Input(item["indexKey"], day_of(item["effectiveDate"]), item["asofindicator"])


def inputs_of(body: bytes) -> object:
    """Return the inputs that the JSON of a request has. They still have to be checked."""
    # A value in memory is many times as large as its few bytes of JSON, so values are counted before they are made.
    if sum(body.count(sign) for sign in (b"{", b"[", b",")) > MOST_SIGNS:
        raise InvalidInput("inputs", f"must be between 1 and {MOST:,}, and these are far more")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:  # also of text that is no UTF-8, and of numbers beyond all measure
        raise InvalidInput("request", f"is not JSON: {error}") from None
    if not isinstance(found, dict) or "inputs" not in found:
        raise InvalidInput("inputs", "is missing: the request is an object with a list of that name")
    return found["inputs"]


def checked(given: object) -> list[Input]:
    """Check and return all inputs of a request. The error for a wrong one names its position and field. Nothing has
    been written at that time."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidInput("inputs", f"must be a list, not {type(given).__name__}")
    if not 1 <= len(given) <= MOST:
        raise InvalidInput("inputs", f"must be between 1 and {MOST:,}, not {len(given):,}")
    positions: dict[Input, int] = {}
    for position, each in enumerate(given):
        wanted = checked_input(f"inputs[{position}]", each)
        first = positions.setdefault(wanted, position)
        if first != position:
            raise InvalidInput(f"inputs[{position}]", f"{wanted.shown} is a duplicate of inputs[{first}]")
    return list(positions)


def checked_input(field: str, given: object) -> Input:
    if not isinstance(given, Mapping):
        raise InvalidInput(field, f"must be an object with {', '.join(FIELDS)}, not {type(given).__name__}")
    for name in FIELDS:
        if name not in given:
            raise InvalidInput(f"{field}.{name}", "is missing")
    for name in given:
        if name not in FIELDS:
            raise InvalidInput(f"{field}.{name}", f"is not known; an input has {', '.join(FIELDS)}")
    wanted = Input(
        checked_index_key(f"{field}.indexKey", given["indexKey"]),
        checked_date(f"{field}.effectiveDate", given["effectiveDate"]),
        checked_asof(f"{field}.asofindicator", given["asofindicator"]),
    )
    if problem := paths.fault(f"{wanted.name}.csv"):
        raise InvalidInput(f"{field}.indexKey", f"cannot be part of a file name: it {problem}")
    return wanted


def checked_index_key(field: str, value: object) -> str:
    """Check an index key, which may be whatever can stand in a file name: `ABC`, `.SPX`, `^GSPC`, `MSCI World`."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {type(value).__name__}")
    if not value or value != value.strip():
        raise InvalidInput(field, f"{value!r} is empty or has blanks around it")
    if len(value) > LONGEST_INDEX_KEY:
        raise InvalidInput(field, f"is longer than {LONGEST_INDEX_KEY} characters")
    if "/" in value or "\\" in value or not value.isprintable():
        raise InvalidInput(field, f"{value!r} has a slash, a backslash or an invisible character in it")
    return value


def checked_date(field: str, value: object) -> date:
    if isinstance(value, int) and abs(value) >= 10**8:  # Python refuses to show a number of thousands of digits
        raise InvalidInput(field, "a number of more than 8 digits is not a day as YYYYMMDD")
    digits = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if len(digits) == 8 and digits.isascii() and digits.isdecimal() and digits[0] != "0":
        try:
            return day_of(int(digits))
        except ValueError:
            pass
    raise InvalidInput(field, f"{value!r} is not a day as YYYYMMDD")


def checked_asof(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be a text, not {type(value).__name__}")
    plain = value.replace("-", "")
    if len(value) > LONGEST_ASOF or not (plain.isascii() and plain.isalnum()):
        raise InvalidInput(field, f"{value[:50]!r} is not up to {LONGEST_ASOF} letters, digits and hyphens")
    return value
