"""Cutting a landed file into ranges that end with a record, and finding the line of each range's first record."""

import itertools
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats import rows
from bulk_pipelines.formats.files import csv_ends, json_ends
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.land.landed_file import LandedFile

BLOCK = 4 * 1024 * 1024
EVENLY = 4
"""The ranges of a file that is too large for one are a multiple of so many."""
LAST, FINER = 2, 3
"""How many ranges at the end of a large file are cut again, and into how many parts."""

Border = tuple[int, int]
"""A byte at which a record begins, and the line (in a JSON array: the number) of that record."""


@dataclass(frozen=True)
class Range:
    """A part of a landed file that holds whole records: the bytes from `start` to before `stop`. Its first record is on
    line `first_line`, or is the element with this number in a JSON array."""

    start: int
    stop: int
    first_line: int


class Targets:
    """The places at which a file should be cut. It is cut at the next record behind each of them. A record may be so
    long that it goes on behind several."""

    def __init__(self, places: list[int]) -> None:
        self.places = places

    def behind(self, border: int) -> int:
        """Return the first place behind this border; behind the last one, a place that no file reaches."""
        index = bisect_right(self.places, border)
        return self.places[index] if index < len(self.places) else sys.maxsize


def places(start: int, stop: int, range_bytes: int) -> list[int]:
    """Return where to cut what lies between two bytes. All ranges are of one size, and there are so many that two or
    four lanes have the same to do; the last ones of a large file are smaller, so that lanes end together that did not
    keep step."""
    size = stop - start
    count = -(-size // range_bytes)
    if count <= 1:
        return []
    count = -(-count // EVENLY) * EVENLY
    parts = count * FINER
    fine = parts - LAST * FINER if count > EVENLY else parts
    return [start + size * part // parts for part in range(1, parts) if part % FINER == 0 or part > fine]


def cut(source: LandedFile, layout: Layout, range_bytes: int) -> list[Range]:
    """Cut the file into ranges, which together hold all its records. A range is never longer than `range_bytes` and
    one record. The file is read once, in constant memory; of a JSON array, only what stands behind the last comma is
    read again.
    """
    targets = Targets(places(layout.start, source.size, range_bytes))
    match layout.format:
        case Format.CSV:
            borders = csv_borders(source, layout, targets)
        case Format.NDJSON:
            borders = line_borders(source, layout, targets)
        case Format.JSON:
            borders = array_borders(source, layout, targets)
        case Format.ROWS:
            borders = row_borders(source, layout, targets)
    ranges = [Range(start, stop, line) for (start, line), (stop, _) in itertools.pairwise(borders)]
    return [each for each in ranges if each.stop > each.start]


def blocks(source: LandedFile, start: int, end: int, judgeable: Callable[[bytes], int]) -> Iterator[tuple[int, bytes]]:
    """Read a part of the file in blocks, and yield the position of each block with its bytes. `judgeable` says how much
    of a block can be judged without the one behind it; the rest goes to that next block."""
    carried = b""
    for position in range(start, end, BLOCK):
        stop = min(position + BLOCK, end)
        data = carried + source.read(position, stop)
        length = len(data) if stop == end else judgeable(data)
        carried = data[length:]
        if length:
            yield stop - len(data), data[:length]


def csv_borders(source: LandedFile, layout: Layout, targets: Targets) -> Iterator[Border]:
    line, state, visible, dialect = layout.first_line, csv_ends.START, False, layout.dialect
    yield layout.start, line
    target = targets.behind(layout.start)
    for base, raw in blocks(source, layout.start, source.size, dialect.judgeable_length):
        visible = visible or bool(raw.strip(b"\r\n"))
        data = dialect.structure(raw)
        if csv_ends.is_plain(data) and not csv_ends.has_lone_return(raw) and not state.quoted:
            ends, state = None, csv_ends.QuoteState(False, data[-1])
            count = partial(count_plain, data if layout.numbered else raw)
        else:
            ends, state = csv_ends.record_ends(data, state)
            count = partial(count_ends, ends) if layout.numbered else partial(count_lines, raw)
        while target < base + len(data):
            end = next_line(data, target - base) if ends is None else next_end(ends, target - base)
            if end is None:
                break
            yield base + end, line + count(end)
            target = targets.behind(base + end)
        line += count(len(data))
    if not visible:
        raise InvalidInput("source", "the file has a header and no records")
    yield source.size, line


def line_borders(source: LandedFile, layout: Layout, targets: Targets) -> Iterator[Border]:
    line = layout.first_line
    yield layout.start, line
    target = targets.behind(layout.start)
    for base, data in blocks(source, layout.start, source.size, len):
        while target < base + len(data):
            end = next_line(data, target - base)
            if end is None:
                break
            yield base + end, line + csv_ends.count_newlines(data[:end])
            target = targets.behind(base + end)
        line += csv_ends.count_newlines(data)
    yield source.size, line


def array_borders(source: LandedFile, layout: Layout, targets: Targets) -> Iterator[Border]:
    number, state, close, began = layout.first_line, json_ends.START, None, layout.start
    yield layout.start, number
    target = targets.behind(layout.start)
    for base, data in blocks(source, layout.start, source.size, json_ends.judgeable_length):
        if close is not None:
            check_behind(data, base)
            continue
        found = json_ends.scan(data, state)
        state = found.state
        end = next_end(found.ends, target - base)
        while end is not None:
            yield base + end, number + int(np.searchsorted(found.ends, end, side="right"))
            target = targets.behind(base + end)
            end = next_end(found.ends, target - base)
        number += len(found.ends)
        began = base + int(found.ends[-1]) if len(found.ends) else began
        if found.close is not None:
            close = base + found.close
            check_behind(data[found.close + 1 :], close + 1)
    if close is None:
        raise InvalidInput("source", f"the JSON array is never closed: element {number}, at byte {began}, has no end")
    if not any(data.strip(json_ends.SPACE) for _, data in blocks(source, began, close, len)):
        empty = number == layout.first_line
        raise InvalidInput("source", "the JSON array " + ("holds no records" if empty else "ends with a comma"))
    yield close, number


def row_borders(source: LandedFile, layout: Layout, targets: Targets) -> Iterator[Border]:
    """Return the borders of ranges of a file of rows, which lie between its batches."""
    target, shift, line = layout.start, None, layout.first_line
    for place in rows.places(source, layout.start):
        shift = layout.first_line - place.first if shift is None else shift
        if place.start >= target:
            yield place.start, place.first + shift
            target = targets.behind(place.start)
        line = place.first + shift + place.rows
    yield source.size, line


def check_behind(data: bytes, position: int) -> None:
    rest = data.lstrip(json_ends.SPACE)
    if rest:
        raise InvalidInput(
            "source", f"at byte {position + len(data) - len(rest)} there is more behind the end of the JSON array"
        )


def next_line(data: bytes, target: int) -> int | None:
    """Return the first position at or behind the target at which a line begins, if every newline ends a line; None if
    there is none."""
    found = data.find(b"\n", max(target - 1, 0))
    return None if found < 0 else found + 1


def next_end(ends: csv_ends.Positions, target: int) -> int | None:
    index = int(np.searchsorted(ends, target))
    return int(ends[index]) if index < len(ends) else None


def count_lines(data: bytes, stop: int | None = None) -> int:
    return len(csv_ends.line_ends(data[:stop]))


def count_plain(data: bytes, stop: int) -> int:
    return csv_ends.count_newlines(data[:stop])


def count_ends(ends: csv_ends.Positions, stop: int) -> int:
    return int(np.searchsorted(ends, stop, side="right"))
