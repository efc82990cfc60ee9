"""The forms of a query's text, because people write one name in several ways."""

import re
from enum import StrEnum

from anyascii import anyascii

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.folding import LEGAL_FORMS, acronym, fold

EDGES = " ,.;-()"
WORD = re.compile(r"\S+")


class Form(StrEnum):
    """What is done to the text of a query."""

    WRITTEN = "written"
    STRIPPED = "stripped"
    INVERTED = "inverted"
    TRANSLITERATED = "transliterated"
    ACRONYM = "acronym"


def parse(place: str, text: str) -> Form:
    if not text:
        return Form.WRITTEN
    if text not in set(Form):
        raise InvalidInput(place, f"{text!r} is none of {', '.join(Form)}")
    return Form(text)


def formed(form: Form, text: str) -> str | None:
    """Return the text in this form; None when the form makes nothing new of it."""
    made = {
        Form.WRITTEN: lambda: text,
        Form.STRIPPED: lambda: stripped(text),
        Form.INVERTED: lambda: inverted(text),
        Form.TRANSLITERATED: lambda: " ".join(anyascii(text).split()),
        Form.ACRONYM: lambda: acronym(fold(text)).upper(),
    }[form]()
    return made if made and (form is Form.WRITTEN or made != text) else None


def stripped(text: str) -> str:
    """Return the name without the legal form at its end: `Acme Widgets, Inc.` is `Acme Widgets`."""
    words = list(WORD.finditer(text))
    while len(words) > 1 and is_legal_form(words[-1][0]):
        words.pop()
    return text[: words[-1].end()].strip(EDGES) if words else ""


def inverted(text: str) -> str:
    """Return `Lovelace, Ada` as `Ada Lovelace`. A legal form behind a comma is no first name."""
    parts = [each.strip() for each in text.split(",")]
    if len(parts) != 2 or not all(parts) or all(map(is_legal_form, parts[1].split())):
        return ""
    return f"{parts[1]} {parts[0]}"


def is_legal_form(word: str) -> bool:
    return fold(word).replace(" ", "") in LEGAL_FORMS
