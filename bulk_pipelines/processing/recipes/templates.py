"""Texts with `{column}` in them, which are filled from a row."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from bulk_pipelines.errors import InvalidInput

FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def columns_of(place: str, template: str) -> set[str]:
    """Return the names that the template has in braces. Raise `InvalidInput` if the braces are wrong."""
    found = set()
    for each in FIELD.finditer(template):
        if each[0] in ("{", "}"):
            raise InvalidInput(place, f"has a single {each[0]}; {each[0] * 2} stands for one of them")
        if each[0] in ("{{", "}}"):
            continue
        if not each[1].strip():
            raise InvalidInput(place, "has {} without the name of a column")
        found.add(each[1])
    return found


def columns_within(value: Any) -> set[str]:
    """Return the names that the texts within JSON have in braces."""
    if isinstance(value, str):
        return {each[1] for each in FIELD.finditer(value) if each[1]}
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {name for each in inner for name in columns_within(each)}


def text_of(value: Any) -> str:
    """Return a value of a row as text. Nothing gives the empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.strip() if isinstance(value, str) else str(value)


def filled(template: str, row: Mapping[str, Any], quote: Callable[[str], str] = str) -> str | None:
    """Return the template with the row's values in it, each passed through `quote`; None when the row has no value for
    one of its columns."""
    missing = False

    def put(found: re.Match[str]) -> str:
        nonlocal missing
        if found[0] in ("{{", "}}"):
            return found[0][0]
        value = text_of(row.get(found[1]))
        missing = missing or not value
        return quote(value)

    text = FIELD.sub(put, template)
    return None if missing else text


def filled_within(value: Any, row: Mapping[str, Any]) -> Any:
    """Return JSON whose texts are templates with the row's values in them. A column without a value gives an empty
    text."""
    if isinstance(value, str):
        return FIELD.sub(lambda found: found[0][0] if found[1] is None else text_of(row.get(found[1])), value)
    if isinstance(value, Mapping):
        return {name: filled_within(each, row) for name, each in value.items()}
    return [filled_within(each, row) for each in value] if isinstance(value, list) else value
