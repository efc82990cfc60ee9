"""Files as people send them, in every format and with every kind of trouble; of few values, so that records meet."""

import json
import uuid
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from bulk_pipelines.resources.declaration import Resource

IDS = [str(uuid.UUID(int=number)) for number in range(1, 9)]
STRANGE = ["\ufeff", "An\nn", 'A "n" n', "A,n", "A\r\nn", "A\rn", "é\u2028"]
NOTHING = [None, "", " ", "\u2028"]

GOOD: dict[str, Sequence[str | None]] = {
    "id": [*IDS, IDS[0].upper(), None, None, None, None, None],
    "email": [*(f"{name}@x.org" for name in "abcdefghij"), "A@X.org", "B@x.ORG"],
    "name": ["Ann", "Bob", "Refuse", "Refuse", *STRANGE],
    "role": ["reader", "admin"],
    "active": ["true", "F", None],
    "created_at": ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05+02:00", "2026-01-02", None],
    "updated_at": ["2026-01-03", None],
    "slug": ["a", "b", "c-1", "d", "e", "f", "g", "h", "i"],
    "title": ["T", "Refuse", "Refuse", *STRANGE],
    "description": ["D", None, "", *STRANGE],
    "body": ["B", "Refuse", "Refuse", *STRANGE],
    "author_id": IDS[:3],
    "article_id": IDS[:3],
    "user_id": IDS[:3],
    "tags": ['["t", "é,\\"u\\""]', "[]", None],
    "published_at": [None],
    "status": ["draft", "published"],
}
BAD: dict[str, Sequence[str | None]] = {
    "id": ["7", "x" * 36],
    "email": ["nobody", "\ufeffa@x.org", "é@x.org", "x" * 300 + "@x.org", *NOTHING],
    "name": ["x" * 201, "\0", *NOTHING],
    "role": ["king", *NOTHING],
    "active": ["yes"],
    "created_at": ["yesterday", "2026-02-29"],
    "updated_at": ["soon"],
    "slug": ["A", "x" * 201, *NOTHING],
    "title": ["x" * 301, "\0", *NOTHING],
    "description": ["\0"],
    "body": ["word " * 501, "\0", *NOTHING],
    "author_id": ["x", IDS[7], None],
    "article_id": ["x", IDS[7], None],
    "user_id": ["x", IDS[7], None],
    "tags": ["t,u", '["t", null]', '["\\u0000"]'],
    "published_at": ["2026-01-04", "never"],
    "status": ["gone", *NOTHING],
}

CSV_JUNK = [b"", b"x,y", b'a"b,c', b'"a\nb', b"\xff,\xc3", "\ufeff".encode(), b'"x"y,z', b" "]
JSON_JUNK = [b"null", b"5", b'"text"', b"[1]", b"{}", b'{"id": }', b'{"id": "\xff"}', b'{"x": "\ttab"}']
NDJSON_JUNK = [*JSON_JUNK, b"", b" \r", b"}", b'{"id": "', "\ufeff{}".encode(), b"\v"]
ARRAY_JUNK = [*JSON_JUNK, b"", b'{"name": "A\rn"}', b'{"name": "A\nn"}', b"{} {}", b"\f{}"]


@st.composite
def records(draw: st.DrawFn, resource: Resource) -> dict[str, Any]:
    """Draw a record. Most are good, so that they have to be told apart by their keys."""
    record = {name: draw(st.sampled_from(GOOD[name])) for name in resource.column_names}
    if draw(st.integers(0, 3)) == 0:
        for name in draw(st.sets(st.sampled_from(resource.column_names), min_size=1, max_size=2)):
            record[name] = draw(st.sampled_from(BAD[name]))
    return record


@st.composite
def files(draw: st.DrawFn, resource: Resource, most: int = 6) -> bytes:
    found = draw(st.lists(records(resource), min_size=1, max_size=most))
    match draw(st.sampled_from(["csv", "csv", "ndjson", "json"])):
        case "csv":
            return draw(csv(resource, found))
        case "ndjson":
            return draw(ndjson(resource, found))
        case _:
            return draw(array(resource, found))


@st.composite
def csv(draw: st.DrawFn, resource: Resource, found: list[dict[str, Any]]) -> bytes:
    ends = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
    required = [column.name for column in resource.columns if column.required]
    optional = [column.name for column in resource.columns if not column.required]
    names = draw(st.permutations([*required, *draw(st.sets(st.sampled_from(optional)))]))
    end, quote_all = draw(ends), draw(st.booleans())
    header = ",".join(draw(st.sampled_from([name, f'"{name}"', f" {name} "])) for name in names).encode()
    text = draw(st.sampled_from([b"", b"\n", b"\r\n\n"])) + header + end
    for record in found:
        text += draw(junk(CSV_JUNK, end))
        fields = [quoted(record[name], draw(st.booleans()) if quote_all else False) for name in names]
        text += ",".join(fields).encode() + (draw(ends) if draw(st.integers(0, 3)) == 0 else end)
    text += draw(st.sampled_from([b"", b"", b"", end, b'"', b'a,"b' + end]))
    return draw(marked(text))


def quoted(value: str | None, always: bool) -> str:
    if value is None:
        return ""
    if always or any(letter in value for letter in ',"\n\r'):
        return '"' + value.replace('"', '""') + '"'
    return value


@st.composite
def junk(draw: st.DrawFn, kinds: list[bytes], end: bytes) -> bytes:
    return draw(st.sampled_from(kinds)) + end if draw(st.integers(0, 9)) == 0 else b""


@st.composite
def marked(draw: st.DrawFn, text: bytes) -> bytes:
    return "\ufeff".encode() * draw(st.booleans()) + text


@st.composite
def json_object(draw: st.DrawFn, resource: Resource, record: dict[str, Any], indent: int | None = None) -> bytes:
    given: dict[str, Any] = {}
    for name, value in record.items():
        if value is None and draw(st.booleans()):
            continue
        given[name] = value
        if name == "active" and value in ("true", "F"):
            given[name] = value == "true"
        if name == "tags" and value is not None and value.startswith("["):
            given[name] = json.loads(value)
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from([*resource.column_names, "unknown"]))
        given[name] = draw(st.sampled_from([5, 1.5e3, True, [], ["x"], [1], {"a": None}, "x"]))
    return json.dumps(given, ensure_ascii=draw(st.booleans()), indent=indent).encode()


@st.composite
def ndjson(draw: st.DrawFn, resource: Resource, found: list[dict[str, Any]]) -> bytes:
    end = draw(st.sampled_from([b"\n", b"\r\n", b" \n"]))
    text = b""
    for number, record in enumerate(found):
        text += draw(junk(NDJSON_JUNK, b"\n")) if number else b""
        text += draw(json_object(resource, record)) + end
    return draw(marked(text if draw(st.booleans()) else text.removesuffix(end)))


@st.composite
def array(draw: st.DrawFn, resource: Resource, found: list[dict[str, Any]]) -> bytes:
    comma = draw(st.sampled_from([b",", b", ", b",\n", b"\r\n,\r\n"]))
    indent = draw(st.sampled_from([None, 2]))
    elements: list[bytes] = []
    for record in found:
        elements += [draw(st.sampled_from(ARRAY_JUNK))] if draw(st.integers(0, 9)) == 0 else []
        elements.append(draw(json_object(resource, record, indent)))
    return draw(marked(draw(st.sampled_from([b"", b"\n "])) + b"[" + comma.join(elements) + b"]\n"))
