"""Finding the cells in the XML of a sheet, many rows at a time, without an object for every cell.

The quick way looks at the bytes of tags as columns of numbers. XML that is written in another manner than Excel,
LibreOffice and the usual libraries write it goes through a parser instead, and comes to the same cells.
"""

import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bulk_pipelines.columns.arrow import buffer, compute
from bulk_pipelines.formats.xlsx_book import damaged, plain, unescaped
from bulk_pipelines.formats.xlsx_package import column_letters

ROW = re.compile(rb'<row\b(?:[^>]*?\sr="(\d{1,7})")?[^>]*>')
LETTERS = re.compile(r"([A-Z]{1,3})(\d{1,7})")
NUMBER, SHARED, TEXT, FLAG, ERROR, DATE, UNKNOWN = range(7)
"""What stands in a cell; `UNKNOWN` is a formula whose value was not saved."""
KINDS = {"n": NUMBER, "s": SHARED, "str": TEXT, "inlineStr": TEXT, "b": FLAG, "e": ERROR, "d": DATE}

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """The cells of some rows that have a value or a formula, in their order: the row of each, its column from 0 on, the
    kind and the style, and what stands in it."""

    rows: Ints
    columns: Ints
    kinds: Ints
    styles: Ints
    texts: Any

    @property
    def unknown(self) -> str | None:
        """The name of the first cell whose value was not saved."""
        found = np.flatnonzero(self.kinds == UNKNOWN)
        return f"{column_letters(int(self.columns[found[0]]))}{self.rows[found[0]]}" if len(found) else None

    def take(self, places: Ints) -> "Cells":
        texts = self.texts.take(pa.array(places))
        return Cells(self.rows[places], self.columns[places], self.kinds[places], self.styles[places], texts)


def scan(data: bytes, root: bytes, prefix: bytes) -> Cells:
    """Return the cells of whole rows. `root` is the first tag of the part, and `prefix` what stands before the names of
    tags."""
    # One byte is looked for much quicker than two that begin with a frequent one.
    is_odd = (b"!" in data and b"<!" in data) or (b"'" in data and b"='" in data)
    if not prefix and not is_odd:
        found = quickly(data)
        if found is not None:
            return found
    return parsed(data, root)


def quickly(data: bytes) -> Cells | None:
    """Find the cells by the bytes of their tags; return None if a tag is not as it is expected."""
    view = np.frombuffer(data + b"    ", dtype=np.uint8)
    tags = np.flatnonzero(view == ord("<"))
    ends = ends_of(tags, np.flatnonzero(view == ord(">")))
    if ends is None:
        return None
    name, behind = view[tags + 1], view[tags + 2]
    is_short = (behind == ord(" ")) | (behind == ord(">"))
    is_cell = (name == ord("c")) & (is_short | (behind == ord("/")))
    is_row = (name == ord("r")) & (behind == ord("o"))
    cells, close = tags[is_cell], ends[is_cell]
    numbers = [found[1] for found in ROW.finditer(data)]
    rows = int(np.count_nonzero(is_row))
    if len(numbers) != rows or None in numbers or not len(cells):
        return None if len(cells) or rows != len(numbers) else nothing()
    if not (view[cells + 3] == ord("r")).all() or not (view[cells + 5] == ord('"')).all():
        return None
    starts, stops = np.zeros(len(cells), dtype=np.int64), np.zeros(len(cells), dtype=np.int64)
    cell_of = np.cumsum(is_cell) - 1
    for mark in "tv":
        values = np.flatnonzero((name == ord(mark)) & is_short)
        values = values[view[ends[values] - 1] != ord("/")]
        owner = cell_of[values]
        if len(owner) and (owner[0] < 0 or (np.diff(owner) == 0).any()):
            return None
        starts[owner] = ends[values] + 1
        stops[owner] = tags[np.minimum(values + 1, len(tags) - 1)]
    marks = np.flatnonzero(view == ord("="))
    kinds = kinds_of(view, cells, close, marks)
    styles = styles_of(view, cells, close, marks)
    row_of = (np.cumsum(is_row) - 1)[is_cell]
    if kinds is None or row_of[0] < 0:
        return None
    if b"<f" in data:
        formulas = cell_of[np.flatnonzero((name == ord("f")) & (is_short | (behind == ord("/"))))]
        lacking = formulas[(starts[formulas] == stops[formulas]) & (kinds[formulas] != TEXT)]
        kinds[lacking] = UNKNOWN
    kept = (stops > starts) | (kinds == UNKNOWN)
    texts = gathered(view, starts[kept], stops[kept])
    if b"&" in data or b"_x" in data:
        texts = with_characters(texts)
    lines = np.array(numbers, dtype="S7").astype(np.int64)[row_of]
    return Cells(lines[kept], columns_of(view, cells)[kept], kinds[kept], styles[kept], texts)


def ends_of(tags: Ints, ends: Ints) -> Ints | None:
    """Return where each tag ends. A text may hold a `>`, too, so the first one behind the beginning of a tag counts.
    Return None if the ends found do not alternate with the tags."""
    if len(tags) > len(ends):
        return None
    if len(tags) < len(ends):
        ends = ends[np.minimum(np.searchsorted(ends, tags), len(ends) - 1)]
    return ends if (tags < ends).all() and (ends[:-1] < tags[1:]).all() else None


def with_characters(texts: Any) -> Any:
    """Return the texts with the characters that stand in them as entities or in Excel's own way."""
    written = texts.cast(pa.binary())
    some = compute.or_(compute.match_substring(written, b"&"), compute.match_substring(written, b"_x"))
    mended = pa.array([unescaped(each) for each in written.filter(some).to_pylist()], pa.binary())
    return compute.replace_with_mask(written, some, mended).cast(pa.string(), safe=False)


def nothing() -> Cells:
    empty = np.zeros(0, dtype=np.int64)
    return Cells(empty, empty, empty, empty, pa.array([], pa.string()))


def columns_of(view: npt.NDArray[np.uint8], cells: Ints) -> Ints:
    """Read the letters of the places of cells: A is 0."""
    found = np.zeros(len(cells), dtype=np.int64)
    going = np.ones(len(cells), dtype=bool)
    for place in range(3):
        letter = view[cells + 6 + place]
        going &= (letter >= ord("A")) & (letter <= ord("Z"))
        found = np.where(going, found * 26 + letter.astype(np.int64) - 64, found)
    return found - 1


def kinds_of(view: npt.NDArray[np.uint8], cells: Ints, close: Ints, marks: Ints) -> Ints | None:
    found = np.full(len(cells), NUMBER)
    told = marks[(view[marks - 1] == ord("t")) & (view[marks - 2] == ord(" "))]
    owner = np.searchsorted(cells, told, side="right") - 1
    inside = (owner >= 0) & (told < close[np.maximum(owner, 0)])
    told, owner = told[inside], owner[inside]
    first, second = view[told + 2], view[told + 3]
    kinds = np.full(len(told), -1)
    for mark, kind in (("n", NUMBER), ("s", SHARED), ("b", FLAG), ("e", ERROR), ("d", DATE)):
        kinds[(first == ord(mark)) & (second == ord('"'))] = kind
    kinds[((first == ord("s")) & (second == ord("t"))) | ((first == ord("i")) & (second == ord("n")))] = TEXT
    if (kinds < 0).any():
        return None
    found[owner] = kinds
    return found


def styles_of(view: npt.NDArray[np.uint8], cells: Ints, close: Ints, marks: Ints) -> Ints:
    found = np.zeros(len(cells), dtype=np.int64)
    told = marks[(view[marks - 1] == ord("s")) & (view[marks - 2] == ord(" "))]
    owner = np.searchsorted(cells, told, side="right") - 1
    inside = (owner >= 0) & (told < close[np.maximum(owner, 0)])
    told, owner = told[inside], owner[inside]
    values, going = np.zeros(len(told), dtype=np.int64), np.ones(len(told), dtype=bool)
    for place in range(2, 8):
        digit = view[np.minimum(told + place, len(view) - 1)]
        going &= (digit >= ord("0")) & (digit <= ord("9"))
        values = np.where(going, values * 10 + digit.astype(np.int64) - 48, values)
    found[owner] = values
    return found


def gathered(view: npt.NDArray[np.uint8], starts: Ints, stops: Ints) -> Any:
    """Make a column of texts of these parts of the bytes."""
    lengths = stops - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return pa.StringArray.from_buffers(len(starts), buffer(offsets.astype(np.int32)), buffer(view[places]))


def parsed(data: bytes, root: bytes) -> Cells:
    """Find the cells with a parser of XML. The part's first tag declares its namespaces."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise damaged("a sheet declares entities")
    name = re.match(rb"<([^\s>/]+)", root)
    assert name is not None
    try:
        tree = ElementTree.fromstring(root + data + b"</" + name[1] + b">")  # noqa: S314  # nothing is declared
    except (ElementTree.ParseError, ValueError) as error:
        raise damaged(str(error)) from None
    found: list[tuple[int, int, int, int, bytes]] = []
    number = 0
    for row in tree:
        if plain(row.tag) != "row":
            continue
        number = int(row.get("r") or number + 1)
        column = -1
        for cell in row:
            place = LETTERS.fullmatch(cell.get("r") or "")
            column = letters(place[1]) if place else column + 1
            text = value_of(cell)
            kind = KINDS.get(cell.get("t", "n"))
            if kind is None:
                raise damaged(f"a cell is of the kind {cell.get('t')!r}")
            if not text and kind != TEXT and any(plain(each.tag) == "f" for each in cell):
                kind = UNKNOWN
            if text or kind == UNKNOWN:
                found.append((number, column, kind, int(cell.get("s") or 0), unescaped_text(text)))
    if not found:
        return nothing()
    rows, columns, kinds, styles, texts = zip(*found, strict=True)
    whole = np.array([rows, columns, kinds, styles], dtype=np.int64)
    return Cells(whole[0], whole[1], whole[2], whole[3], pa.array(texts, pa.binary()).cast(pa.string(), safe=False))


def letters(text: str) -> int:
    found = 0
    for letter in text:
        found = found * 26 + ord(letter) - 64
    return found - 1


def value_of(cell: ElementTree.Element) -> str:
    for each in cell:
        if plain(each.tag) == "v":
            return each.text or ""
    inline = [part for part in cell if plain(part.tag) == "is"]
    runs = [part for each in inline for part in each if plain(part.tag) in {"t", "r"}]
    return "".join(text.text or "" for run in runs for text in run.iter() if plain(text.tag) == "t")


def unescaped_text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return unescaped(data.replace(b"&", b"&amp;")) if b"_x" in data else data
