"""The names of the fields of files: which are alike, how expressions call them, and what is said when none fits."""

import difflib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from bulk_pipelines.errors import InvalidInput

SHOWN = 10
"""How many of the fields that do not fit an error names."""
LONGEST_SHOWN = 80


def alike(name: str) -> str:
    """Return what is left of a name without case, spaces and punctuation. A name that has nothing else stays as
    it is."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(mark for mark in folded if mark.isalnum()) or folded


def sql_names(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the fields as expressions call them: in lower case, with an underscore for all that is no
    letter and no digit. No two are the same."""
    found: dict[str, None] = {}
    counts: Counter[str] = Counter()
    for number, field in enumerate(fields, 1):
        plain = re.sub(r"\W+", "_", field.casefold()).strip("_") or f"field_{number}"
        plain = f"field_{plain}" if plain[0].isdigit() else plain
        plain = plain.encode()[:50].decode(errors="ignore")
        name = plain
        while name in found:
            counts[plain] += 1
            name = f"{plain}_{counts[plain] + 1}"
        found[name] = None
    return tuple(found)


def places_of(told: str, fields: Sequence[str], option: str) -> list[int]:
    for same in (str, alike):
        found = [place for place, field in enumerate(fields) if same(field) == same(told)]
        if found:
            return found
    names = first_of(list(fields), lambda name: json.dumps(name[:LONGEST_SHOWN], ensure_ascii=False))
    raise InvalidInput(option, f"the file has no field {with_hint(told, tuple(fields))}; it has {names}")


def mapped(told: Iterable[tuple[str, str]], fields: Sequence[str]) -> tuple[dict[int, str], list[tuple[str, int]]]:
    """Return the column of each field that was told to go to one; and further columns, each with the place of a field
    that another column has already."""
    found: dict[int, str] = {}
    again: list[tuple[str, int]] = []
    for column, field in told:
        place = places_of(field, fields, "map")[0]
        if found.setdefault(place, column) != column:
            again.append((column, place))
    return found, again


def mentions(expression: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", expression.casefold()) is not None


def first_of(names: list[str], said: Callable[[str], str]) -> str:
    """List only the first few names, and how many more there are: a file of another kind may have thousands."""
    rest = len(names) - SHOWN
    return ", ".join(said(name) for name in names[:SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def with_hint(name: str, known: tuple[str, ...]) -> str:
    name = name[:LONGEST_SHOWN]
    shown = json.dumps(name, ensure_ascii=False)
    close = closest(name, known)
    return shown if close is None else f"{shown} (meant {close}?)"


def closest(name: str, known: tuple[str, ...]) -> str | None:
    """Return the name that somebody may have meant."""
    found = difflib.get_close_matches(name[:LONGEST_SHOWN].lower(), known, 1)
    return found[0] if found else None
