"""One setting: how it is declared, and how the text of its variable becomes a value."""

import math
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from bulk_pipelines.errors import InvalidInput

Value = TypeVar("Value", str, int, float, bool, Path)

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
    """Declare one setting. `secret` keeps its value out of every printed form of the settings."""
    metadata = {"variable": variable, "doc": doc, "at_least": at_least, "at_most": at_most, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


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
