"""Putting the values of JSON objects into quotes, so that they can be read as columns of text: numbers of any size,
JSON and arrays reach the table as they were written. This is done for all records of a block at once, on its bytes."""

import json

import numpy as np
import numpy.typing as npt

from bulk_pipelines.columns.arrow import Bytes, Mask
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.formats.files.csv_ends import Positions, array_of
from bulk_pipelines.formats.files.json_ends import BACKSLASH, COMMA, DEEPER, QUOTE, SPACE, STRUCTURAL, string_quotes
from bulk_pipelines.resources.declaration import Resource

COLON, POINT = ord(":"), ord(".")
NUMBERS = {kind for kind in ColumnKind if kind.is_number}
MARKS = STRUCTURAL.copy()
MARKS[COLON] = True
BLANK = np.zeros(256, dtype=bool)
BLANK[list(SPACE)] = True
NULL = np.frombuffer(b"null", dtype=np.uint8)


def quoted(lines: bytes, resource: Resource, *, has_commas: bool = False) -> bytes:
    """Return the same objects with a string for every value but null. Texts stay as they are, so that a number is no
    text; JSON is put into quotes even if it is a string. What is not well-formed comes out as something that cannot be
    read, or whose values the table refuses. If the numbers of texts have a decimal comma, those of JSON get one, too,
    where they go to columns of numbers."""
    view = array_of(lines)
    strings = string_quotes(lines)
    colons, ends = values_of(view, strings)
    if not len(colons):
        return lines
    starts = np.minimum(after_blanks(view, colons + 1), ends)
    ends = np.maximum(before_blanks(view, ends), starts)
    first = view[np.minimum(starts, len(view) - 1)]
    of_text = named(view, strings, colons, resource, {ColumnKind.TEXT})
    of_json = named(view, strings, colons, resource, {ColumnKind.JSON})
    wrapped = (ends > starts) & ~of_text & ~is_null(view, starts, ends) & ((first != QUOTE) | of_json)
    if has_commas:
        of_numbers = wrapped & (DEEPER[first] == 0) & named(view, strings, colons, resource, NUMBERS)
        view = with_commas(view, starts[of_numbers], ends[of_numbers])
    starts, ends = starts[wrapped], ends[wrapped]
    if not len(starts):
        return lines
    special = np.flatnonzero((view == QUOTE) | (view == BACKSLASH))
    owner = np.searchsorted(starts, special, side="right") - 1
    special = special[(owner >= 0) & (special < ends[owner])]
    places = np.concatenate((starts, special, ends))
    given = np.concatenate((np.full(len(starts), QUOTE), np.full(len(special), BACKSLASH), np.full(len(ends), QUOTE)))
    # Where a quote is escaped that begins the value, the quote around the value comes first: the sort is stable.
    order = np.argsort(places, kind="stable")
    return np.insert(view, places[order], given[order].astype(np.uint8)).tobytes()


def with_commas(view: Bytes, starts: Positions, ends: Positions) -> Bytes:
    """Return the bytes with a comma for each point of these values."""
    points = np.flatnonzero(view == POINT)
    owner = np.searchsorted(starts, points, side="right") - 1
    changed = view.copy()
    changed[points[(owner >= 0) & (points < np.append(ends, 0)[owner])]] = COMMA
    return changed


def values_of(view: Bytes, strings: Positions) -> tuple[Positions, Positions]:
    """Return the colon before each value of the outermost objects, and the comma or bracket behind it."""
    marks = np.flatnonzero(MARKS[view])
    marks = marks[np.searchsorted(strings, marks) % 2 == 0]
    kinds = view[marks]
    depths = np.cumsum(DEEPER[kinds], dtype=np.int64)
    colons = marks[(kinds == COLON) & (depths == 1)]
    ends = marks[((kinds == COMMA) & (depths == 1)) | ((DEEPER[kinds] < 0) & (depths == 0))]
    place = np.searchsorted(ends, colons)
    closed = place < len(ends)
    return colons[closed], ends[place[closed]]


def after_blanks(view: Bytes, places: Positions) -> Positions:
    places = places.copy()
    while (blank := BLANK[view[np.minimum(places, len(view) - 1)]] & (places < len(view))).any():
        places[blank] += 1
    return places


def before_blanks(view: Bytes, places: Positions) -> Positions:
    places = places.copy()
    while (blank := BLANK[view[np.maximum(places - 1, 0)]] & (places > 0)).any():
        places[blank] -= 1
    return places


def is_null(view: Bytes, starts: Positions, ends: Positions) -> Mask:
    found: Mask = ends - starts == len(NULL)
    found[found] = (view[starts[found][:, None] + np.arange(len(NULL))] == NULL).all(axis=1)
    return found


def named(view: Bytes, strings: Positions, colons: Positions, resource: Resource, kinds: set[ColumnKind]) -> Mask:
    """Tell which values belong to columns of these kinds, by the name that stands before each colon."""
    found: npt.NDArray[np.bool_] = np.zeros(len(colons), dtype=bool)
    closing = np.searchsorted(strings, colons) - 1
    usable = closing >= 1
    stops = strings[np.maximum(closing, 0)]
    begins = strings[np.maximum(closing - 1, 0)] + 1
    names = {column.in_files or column.name for column in resource.columns if column.kind in kinds}
    for name in names:
        plain = np.frombuffer(name.encode(), dtype=np.uint8)
        same = usable & (stops - begins == len(plain))
        same[same] = (view[begins[same][:, None] + np.arange(len(plain))] == plain).all(axis=1)
        found |= same
    escapes = np.flatnonzero(view == BACKSLASH)
    escaped = np.flatnonzero(usable & (np.searchsorted(escapes, begins) < np.searchsorted(escapes, stops)))
    spelled = [view[start:stop].tobytes() for start, stop in zip(begins[escaped], stops[escaped], strict=True)]
    meant = {each for each in set(spelled) if unescaped(each) in names}
    found[escaped] = [each in meant for each in spelled]
    return found


def unescaped(name: bytes) -> str | None:
    """Return the name that somebody wrote with escapes, as in `gr\\u00f6\\u00dfe`; None if it is no JSON."""
    try:
        return str(json.loads(b'"' + name + b'"'))
    except ValueError:
        return None
