"""The parameters in a query's text, found as PostgreSQL reads it: never in a literal, a name or a comment."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from bulk_pipelines.errors import InvalidInput

FIELD = "BULK_DISTRIBUTION_QUERY"

LETTER = "A-Za-z_\x80-\U0010ffff"
NAME = rf"[{LETTER}][{LETTER}0-9$]*+"
TAG = rf"(?:[{LETTER}][{LETTER}0-9]*+)?"
ESCAPED = r"(?:[^'\\]|\\.|'')*+'"
# Two literals with a line break between them are one, and the second is read in the way of the first.
BREAK = r"(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*+[\n\r])*+"

# In this order: E'…' before the name E, :: before a parameter.
TOKENS = re.compile(
    rf"""
      (?P<space>[ \t\n\r\f\v]++|--[^\n\r]*+)
    | (?P<comment>/\*)
    | (?P<escaped>[eE]'{ESCAPED}(?:{BREAK}'{ESCAPED})*+)
    | (?P<plain>'(?:[^']|'')*+')
    | (?P<dollar>\$(?P<tag>{TAG})\$.*?\$(?P=tag)\$)
    | (?P<quoted>"(?:[^"]|"")*+")
    | (?P<open_text>'|[eE]'|\${TAG}\$)
    | (?P<open_name>")
    | (?P<word>{NAME}|[0-9$][{LETTER}0-9$.]*+)
    | (?P<cast>::)
    | (?P<parameter>:{NAME})
    | (?P<semicolon>;)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
COMMENT_EDGE = re.compile(r"/\*|\*/")
SILENT = {"space", "comment"}
OPEN = {"open_text": "text", "open_name": "name"}
# What a slice's colon stands right behind: `list[1:last]`.
OPERANDS = {"word", "quoted", "escaped", "plain", "dollar"}


class Token(NamedTuple):
    kind: str
    text: str


def tokens(text: str) -> Iterator[Token]:
    at = 0
    while found := TOKENS.match(text, at):
        kind = next(name for name, part in found.groupdict().items() if part is not None and name != "tag")
        if kind in OPEN:
            raise unended(OPEN[kind], text, at)
        end = end_of_comment(text, at) if kind == "comment" else found.end()
        yield Token(kind, text[at:end])
        at = end


def end_of_comment(text: str, start: int) -> int:
    """Return where the comment ends. Comments may stand within comments."""
    depth = 0
    for edge in COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    raise unended("comment", text, start)


def unended(what: str, text: str, at: int) -> InvalidInput:
    return InvalidInput(FIELD, f"has a {what} that does not end, from line {text.count(chr(10), 0, at) + 1} on")


def statement(text: str) -> list[Token]:
    """Return the tokens of the one statement in the text, without the semicolons and comments behind it."""
    found = list(tokens(text))
    while found and found[-1].kind in {*SILENT, "semicolon"}:
        found.pop()
    if any(token.kind == "semicolon" for token in found):
        raise InvalidInput(FIELD, "holds more than one statement, and must be one SELECT")
    return found


def replaced(found: list[Token], names: Collection[str], form: Callable[[str], str]) -> tuple[str, set[str]]:
    """Return the text with `form` in place of each parameter, and the names of the parameters that it has.

    A percent sign of the text's own, as in LIKE, is doubled, because psycopg reads a single one as a placeholder.
    """
    parts: list[str] = []
    used: set[str] = set()
    brackets: list[str] = []
    before = Token("other", "")
    for token in found:
        name = token.text[1:]
        if token.kind == "parameter" and name in names and not ends_slice(brackets, before):
            parts.append(form(name))
            used.add(name)
        else:
            parts.append(token.text.replace("%", "%%"))
        if token.text in {"(", "["}:
            brackets.append(token.text)
        elif token.text in {")", "]"} and brackets:
            brackets.pop()
        before = token
    return "".join(parts), used


def ends_slice(brackets: list[str], before: Token) -> bool:
    inside = bool(brackets) and brackets[-1] == "["
    return inside and (before.kind in OPERANDS or before.text in {")", "]"})
