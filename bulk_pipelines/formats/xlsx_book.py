"""The parts of an XLSX workbook that its sheets need: their names, the texts that they share, and which styles are
dates."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns.arrow import Column, buffer
from bulk_pipelines.errors import InvalidInput

SMALL = 32 << 20
SHARED = 512 << 20
"""How many bytes of shared texts are kept in memory."""
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
STRICT = "{http://purl.oclc.org/ooxml/spreadsheetml/main}"
RELATION = (
    "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id",
    "{http://purl.oclc.org/ooxml/officeDocument/relationships}id",
)
DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
"""The numbers of Excel's own formats that show dates and times."""
LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h|m|s)[^\]]*\]', re.IGNORECASE)
ITEM = re.compile(rb"<si>(?:<t(?: xml:space=\"preserve\")?>([^<]*)</t></si>|(.*?)</si>)|<si\s*/>", re.DOTALL)
ENTITY = re.compile(rb"&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
ESCAPED = re.compile(rb"_x([0-9a-fA-F]{4})_")
NAMED = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}

Unpack = Callable[[str], Iterator[bytes]]
"""Yields the bytes of a part of the workbook, within the limits for unpacking; nothing if there is no such part."""


@dataclass(frozen=True)
class Book:
    sheets: tuple[tuple[str, str, bool], ...]
    """The name of each sheet, its part, and whether it is hidden."""
    dates: frozenset[int]
    """The numbers of the styles that show dates."""
    from_1904: bool


def damaged(what: str) -> InvalidInput:
    return InvalidInput("source", f"the workbook cannot be read: {what}")


def tree(unpack: Unpack, part: str) -> ElementTree.Element | None:
    """Parse a small part. A part that declares entities is refused, whatever they are."""
    data = b""
    for piece in unpack(part):
        data += piece
        if len(data) > SMALL:
            raise damaged(f"{part} has more than {SMALL} bytes")
    if not data:
        return None
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data or data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise damaged(f"{part} declares entities, or is not UTF-8")
    try:
        return ElementTree.fromstring(data)  # noqa: S314  # without a DOCTYPE there are no entities
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise damaged(f"{part}: {error}") from None


def plain(tag: str) -> str:
    return tag.rpartition("}")[2]


def named(root: ElementTree.Element | None, name: str) -> list[ElementTree.Element]:
    return [] if root is None else [each for each in root.iter() if plain(each.tag) == name]


def read(unpack: Unpack) -> Book:
    root = tree(unpack, "xl/workbook.xml")
    if root is None:
        raise damaged("it has no xl/workbook.xml")
    targets = {
        each.get("Id"): each.get("Target", "")
        for each in named(tree(unpack, "xl/_rels/workbook.xml.rels"), "Relationship")
    }
    found = []
    for sheet in named(root, "sheet"):
        target = targets.get(next((sheet.get(name) for name in RELATION if sheet.get(name)), None), "")
        part = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
        if target and "worksheets" in part:
            found.append((sheet.get("name", ""), part, sheet.get("state", "visible") != "visible"))
    if not found:
        raise damaged("it has no sheets with cells")
    from_1904 = any(each.get("date1904") in {"1", "true"} for each in named(root, "workbookPr"))
    return Book(tuple(found), styles(tree(unpack, "xl/styles.xml")), from_1904)


def styles(root: ElementTree.Element | None) -> frozenset[int]:
    codes = {each.get("numFmtId"): each.get("formatCode", "") for each in named(root, "numFmt")}
    cells = next(iter(named(root, "cellXfs")), None)
    found = set()
    for number, style in enumerate(cells if cells is not None else []):
        kind = style.get("numFmtId", "0")
        if is_date(codes[kind]) if kind in codes else kind.isdecimal() and int(kind) in DATES:
            found.add(number)
    return frozenset(found)


def is_date(code: str) -> bool:
    """Tell whether a format shows a date or a time of day. One that counts hours, as in [h]:mm, does not."""
    bare = LITERAL.sub("", code.split(";", maxsplit=1)[0]).lower()
    return "[" not in bare and bool(re.search(r"[dmyhs]", bare)) and "general" not in bare


def shared(unpack: Unpack) -> Column:
    """Return the texts that cells share, which are kept in memory."""
    texts: list[Column] = []
    left, size = b"", 0
    for piece in unpack("xl/sharedStrings.xml"):
        left += piece
        size += len(piece)
        if size > SHARED:
            raise damaged(f"its texts have more than {SHARED >> 20} MiB: save it as CSV")
        if b"<!DOCTYPE" in left:
            raise damaged("xl/sharedStrings.xml declares entities")
        end = max(left.rfind(b"</si>"), left.rfind(b"<si/>"))
        if end >= 0:
            texts.append(items(left[: end + 5]))
            left = left[end + 5 :]
    return pa.concat_arrays(texts).cast(pa.string(), safe=False) if texts else pa.array([], pa.string())


def items(data: bytes) -> Column:
    """Return the texts of whole items."""
    is_written = b"&" in data or b"_x" in data
    found = None if is_written else plain_items(data)
    if found is not None:
        return found
    if b":si>" in data:
        data = re.sub(rb"<(/?)\w+:", rb"<\1", data)
    texts = [simple or (rich and joined(rich)) or b"" for simple, rich in ITEM.findall(data)]
    return pa.array([unescaped(each) for each in texts] if is_written else texts, pa.binary())


def plain_items(data: bytes) -> Column | None:
    """Find the texts by the bytes of the tags, without an object for each; return None if some item has other tags than
    `<si><t>text</t></si>`."""
    first = data.find(b"<si")
    view = np.frombuffer(data + b" " * 32, dtype=np.uint8)
    tags = np.flatnonzero(view[:-32] == ord("<"))
    tags = tags[np.searchsorted(tags, max(first, 0)) :]
    if first < 0 or len(tags) % 4:
        return None
    begin, text, end, close = tags.reshape(-1, 4).T
    kept = (view[text + 2] == ord(" ")) & (view[text + 3] == ord("x"))
    starts = text + np.where(kept, len('<t xml:space="preserve">'), len("<t>"))
    is_plain = (text == begin + len("<si>")) & (starts <= end) & (close == end + len("</t>"))
    is_plain &= (view[starts - 1] == ord(">")) & (kept | (view[text + 2] == ord(">")))
    for places, tag in ((begin, b"<si>"), (text, b"<t"), (end, b"</t>"), (close, b"</si>")):
        for offset, character in enumerate(tag):
            is_plain &= view[places + offset] == character
    if not is_plain.all():
        return None
    # Each text is followed by what stands before the next one, which is left out.
    edges = np.column_stack((starts, end)).ravel()
    both: Column = pa.Array.from_buffers(
        pa.binary(), len(edges) - 1, [None, buffer(edges.astype(np.int32)), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, len(edges), 2)))


def joined(rich: bytes) -> bytes:
    """Return the text of runs of different looks, without how it is pronounced."""
    rich = re.sub(rb"<rPh.*?</rPh>", b"", rich, flags=re.DOTALL)
    return b"".join(re.findall(rb"<t(?:\s[^>]*)?>([^<]*)</t>", rich))


def unescaped(text: bytes) -> bytes:
    if b"&" in text:
        text = ENTITY.sub(character, text)
    return ESCAPED.sub(escaped, text) if b"_x" in text else text


def character(found: re.Match[bytes]) -> bytes:
    if found[3]:
        return NAMED[found[3]]
    number = int(found[1]) if found[1] else int(found[2], 16)
    return chr(number).encode("utf-8", "replace") if number < 0x110000 else b"?"


def escaped(found: re.Match[bytes]) -> bytes:
    return chr(int(found[1], 16)).encode("utf-8", "replace")
