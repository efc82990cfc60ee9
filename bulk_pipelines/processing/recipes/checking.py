"""Declarations that people write are read here. Each value is taken once, by its name and type, and a name that nobody
takes counts as a misspelling."""

import math
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from bulk_pipelines.engine.intake import payload
from bulk_pipelines.errors import InvalidInput

NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class Fields:
    """The fields of one table of a declaration, to be used as a context: at its end every field must have been
    taken."""

    def __init__(self, place: str, given: object) -> None:
        if not isinstance(given, Mapping):
            raise InvalidInput(place, f"must be a table, not {type(given).__name__}")
        self.place = place
        self.given = dict(given)
        self.known: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self.given:
            unknown = min(map(str, self.given))
            raise InvalidInput(self.at(unknown), f"is not known; there are {', '.join(sorted(self.known))}")

    def at(self, name: str) -> str:
        return f"{self.place}.{name}"

    def take(self, name: str, default: Any = None) -> Any:
        self.known.append(name)
        return self.given.pop(name, default)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.take(name, default)
        if value is None:
            raise InvalidInput(self.at(name), "is missing")
        return value if value == "" == default else payload.text(self.at(name), value, 10_000)

    def optional(self, name: str) -> str | None:
        value = self.take(name)
        return None if value is None else payload.text(self.at(name), value, 10_000)

    def flag(self, name: str, default: bool) -> bool:
        value = self.take(name, default)
        if not isinstance(value, bool):
            raise InvalidInput(self.at(name), f"{value!r} is neither true nor false")
        return value

    def number(self, name: str, default: float, *, least: float = 0.0, most: float = math.inf) -> float:
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise InvalidInput(self.at(name), f"{value!r} is not a number")
        if not least <= value <= most:
            raise InvalidInput(self.at(name), f"{value:g} is not from {least:g} to {most:g}")
        return float(value)

    def whole(self, name: str, default: int, *, least: int = 0, most: int = 1_000_000) -> int:
        value = self.number(name, default, least=least, most=most)
        if value != int(value):
            raise InvalidInput(self.at(name), f"{value:g} is not a whole number")
        return int(value)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(payload.text(f"{self.at(name)}[{n}]", each, 10_000) for n, each in enumerate(self.list_of(name)))

    def list_of(self, name: str) -> list[Any]:
        value = self.take(name, [])
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise InvalidInput(self.at(name), f"must be a list, not {type(value).__name__}")
        return list(value)

    def mapping(self, name: str) -> dict[str, str]:
        """Take a table of texts."""
        value = self.take(name, {})
        if not isinstance(value, Mapping):
            raise InvalidInput(self.at(name), f"must be a table, not {type(value).__name__}")
        return {str(key): payload.text(f"{self.at(name)}.{key}", each, 10_000) for key, each in value.items()}

    def table(self, name: str) -> "Fields":
        return Fields(self.at(name), self.take(name, {}))

    def tables(self, name: str) -> list["Fields"]:
        return [Fields(f"{self.at(name)}[{number}]", each) for number, each in enumerate(self.list_of(name))]


def checked_name(place: str, name: object) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInput(place, f"{name!r} is no name: a small letter, then letters, digits, - and _")
    return name
