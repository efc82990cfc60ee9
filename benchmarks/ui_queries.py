"""The GraphQL queries that the pages of Dagster's UI send, as they stand in the installed web server's own scripts."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import dagster_webserver

SCRIPTS = Path(dagster_webserver.__file__).parent / "webapp" / "build" / "_next" / "static"
# A document is a literal of the script: quotes, the kind of document, its name, and everything up to the same quotes.
DOCUMENT = re.compile(r'(["`\'])(?:\\n\s*)?((query|mutation|fragment) (\w+)\b.*?)(?<!\\)\1', re.DOTALL)
SPREAD = re.compile(r"\.\.\.\s*(\w+)\b")


def documents() -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the name and the text of every document that the scripts have."""
    for script in sorted(SCRIPTS.rglob("*.js")):
        for found in DOCUMENT.finditer(script.read_text(encoding="utf-8", errors="replace")):
            yield found[3], found[4], found[2].encode("ascii", "ignore").decode("unicode_escape")


@cache
def library() -> Mapping[str, Mapping[str, str]]:
    """Return the texts of all documents, by kind and name."""
    found: dict[str, dict[str, str]] = {"query": {}, "mutation": {}, "fragment": {}}
    for kind, name, text in documents():
        found[kind].setdefault(name, text)
    return found


def text_of(name: str) -> str:
    """Return the query or mutation of this name, with all fragments that it needs."""
    known = library()
    text = known["query"].get(name) or known["mutation"][name]
    added: set[str] = set(re.findall(r"fragment (\w+) on", text))
    while missing := {each for each in SPREAD.findall(text) if each in known["fragment"]} - added:
        for fragment in sorted(missing):
            if fragment not in re.findall(r"fragment (\w+) on", text):
                text += "\n" + known["fragment"][fragment]
        added |= missing
    return text
