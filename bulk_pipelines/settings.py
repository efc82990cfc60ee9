"""Every setting of the system, and the only place that reads the environment.

A setting is one line of `Settings`: its variable, its default and what it does. `docs/settings.md` is made from it.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from bulk_pipelines.errors import InvalidInput

Value = TypeVar("Value", str, int, float, bool, Path)

CHECKOUT = Path(__file__).resolve().parents[1]
TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}


def setting(
    variable: str,
    default: Value,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    secret: bool = False,
) -> Value:
    """One setting. `secret` keeps its value out of every printed form of the settings."""
    metadata = {"variable": variable, "doc": doc, "at_least": at_least, "at_most": at_most, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True)
class Settings:
    database_url: str = setting(
        "BULK_DATABASE_URL",
        "",
        "The PostgreSQL (15 or newer) to use, `postgresql://user:password@host:port/database`. "
        "Empty: an embedded server, started when it is needed.",
        secret=True,
    )
    home: Path = setting(
        "BULK_HOME",
        CHECKOUT / ".bulk",
        "The folder of everything this installation keeps on disk: "
        "the embedded server's data, Dagster's logs, local storage.",
    )
    ui_port: int = setting("BULK_UI_PORT", 3000, "The port of Dagster's UI, on loopback.", at_least=1, at_most=65535)
    pool_size: int = setting(
        "BULK_POOL_SIZE", 10, "How many database connections one process may hold at most.", at_least=1, at_most=200
    )
    connect_timeout: int = setting(
        "BULK_CONNECT_TIMEOUT", 10, "Seconds to wait for the database to answer a new connection.", at_least=1
    )


@dataclass(frozen=True)
class Description:
    """What the documentation says about one setting."""

    name: str
    variable: str
    kind: str
    default: str
    doc: str


def load(environ: Mapping[str, str]) -> Settings:
    """The settings that these variables say; a variable that is missing or empty means its default."""
    given: dict[str, Any] = {}
    for each in fields(Settings):
        text = environ.get(each.metadata["variable"], "").strip()
        if text:
            given[each.name] = parsed(text, type(each.default), each.metadata)
    return Settings(**given)


def current() -> Settings:
    """The settings of this process."""
    return load(os.environ)


def unknown(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none: most often a misspelling."""
    known = {each.metadata["variable"] for each in fields(Settings)}
    return sorted(name for name in environ if name.startswith("BULK_") and name not in known)


def describe() -> list[Description]:
    """Every setting, in the order of the class."""
    return [
        Description(
            each.name,
            each.metadata["variable"],
            type(each.default).__name__ if not isinstance(each.default, Path) else "path",
            shown_default(each.default),
            each.metadata["doc"],
        )
        for each in fields(Settings)
    ]


def shown_default(default: object) -> str:
    if isinstance(default, Path) and default.is_relative_to(CHECKOUT):
        return f"{default.relative_to(CHECKOUT)} in the checkout"
    return str(default)


def parsed(text: str, kind: type, metadata: Mapping[str, Any]) -> str | int | float | bool | Path:
    variable = str(metadata["variable"])
    if issubclass(kind, Path):
        return Path(text).expanduser().absolute()
    if kind is bool:
        return parsed_flag(text, variable)
    if kind is int or kind is float:
        return parsed_number(text, kind, metadata)
    return text


def parsed_flag(text: str, variable: str) -> bool:
    if text.lower() in TRUE | FALSE:
        return text.lower() in TRUE
    raise InvalidInput(variable, f"{text!r} is neither true nor false")


def parsed_number(text: str, kind: type[int] | type[float], metadata: Mapping[str, Any]) -> int | float:
    variable = str(metadata["variable"])
    try:
        number = kind(text)
    except ValueError:
        raise InvalidInput(variable, f"{text!r} is not {'a whole number' if kind is int else 'a number'}") from None
    if not math.isfinite(number):
        raise InvalidInput(variable, f"{text!r} is not a number to count with")
    least, most = metadata["at_least"], metadata["at_most"]
    if least is not None and number < least:
        raise InvalidInput(variable, f"{text} is too small: at least {least}")
    if most is not None and number > most:
        raise InvalidInput(variable, f"{text} is too large: at most {most}")
    return number
