"""Reading a range in blocks of whole records. Each block has as many rows and bytes as the caller wants at the time."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from bulk_pipelines.columns import arrow
from bulk_pipelines.formats import rows
from bulk_pipelines.formats.files import csv_ends, json_ends
from bulk_pipelines.formats.files.csv_ends import Positions
from bulk_pipelines.formats.rows import Place
from bulk_pipelines.formats.typed import arrow_plain, arrow_text
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.inspect.dialect import Dialect
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.inspect.naming import FieldMapping
from bulk_pipelines.imports.plan.land.landed_file import LandedFile

KEPT_OF_OVERSIZED = 64 * 1024
LEAST_READ = 64 * 1024
FIRST_GUESS = 256


class Sizer(Protocol):
    """How much the next block may hold. It is asked anew for each block."""

    @property
    def rows(self) -> int: ...

    @property
    def max_bytes(self) -> int: ...


@dataclass(frozen=True)
class Position:
    """A place in the file where reading goes on: a byte, and the line (or number) of the record that begins there."""

    start: int
    line: int


@dataclass(frozen=True)
class Spans:
    """Where the records of a block begin and end in it, and on which lines of the file (or with which numbers)."""

    starts: Positions
    stops: Positions
    lines: Positions

    def __len__(self) -> int:
        return len(self.starts)


def texts_in(values: arrow.Column) -> Iterator[arrow.Column]:
    """Yield the texts of a column, also those of which its values are made."""
    if pa.types.is_string(values.type):
        yield values
    elif arrow_plain.is_list(values.type):
        yield from texts_in(arrow_plain.elements_of(values))
    elif pa.types.is_struct(values.type):
        for part in values.flatten():
            yield from texts_in(part)


@dataclass(frozen=True)
class Block:
    """Whole records of a file, as bytes. `ends` are the positions after each record; it is None if every newline ends a
    record. `unclosed` means that the last record has a quote which is never closed. An oversized record is a block of
    its own, which holds only the record's beginning; `size` says how long it is in the file."""

    format: Format
    data: bytes
    at: Position
    ends: Positions | None
    following: Position
    unclosed: bool = False
    oversized: bool = False
    numbered: bool = False
    batch: pa.RecordBatch | None = None
    """The rows, if the file has rows instead of bytes that are to be parsed."""
    lines: Positions | None = None
    """The numbers of these rows."""
    mapping: FieldMapping | None = None
    """What the values of these rows become."""

    @property
    def may_hold_nul(self) -> bool:
        """Whether some value may hold a NUL character, as it is or escaped in JSON."""
        if self.batch is None:
            return b"\0" in self.data or (b"\\" in self.data and rb"\u0000" in self.data)
        return any(not arrow.text_bytes(texts).all() for values in self.batch.columns for texts in texts_in(values))

    @property
    def size(self) -> int:
        return self.following.start - self.at.start

    @cached_property
    def spans(self) -> Spans:
        """Return where the records stand. Blank lines are no records, and are left out; an element of an array is
        always a record."""
        if self.lines is not None:
            places = np.arange(len(self.lines))
            return Spans(places, places + 1, self.lines)
        if self.oversized:
            return Spans(np.array([0]), np.array([len(self.data)]), np.array([self.at.line]))
        stops = csv_ends.newline_ends(self.data) if self.ends is None else self.ends
        if not len(stops) or stops[-1] < len(self.data):
            stops = np.append(stops, len(self.data))
        starts = np.concatenate(([0], stops[:-1]))
        lines = self.at.line + np.arange(len(starts))
        if self.format is Format.JSON:
            return Spans(starts, stops, lines)
        if self.ends is not None and not self.numbered:
            lines = self.at.line + np.searchsorted(csv_ends.line_ends(self.data), starts, side="right")
        visible = self.visible(starts, stops)
        return Spans(starts[visible], stops[visible], lines[visible])

    def visible(self, starts: Positions, stops: Positions) -> Positions:
        """Return the numbers of the records that hold more than the end of a line, or in NDJSON than white space."""
        lengths = stops - starts
        longest_blank = int(lengths.max(initial=0)) if self.format is Format.NDJSON else 2
        blank = json_ends.SPACE if self.format is Format.NDJSON else b"\r\n"
        first = csv_ends.array_of(self.data)[starts]
        doubtful = np.flatnonzero((lengths <= longest_blank) & np.isin(first, list(blank)))
        keep = np.ones(len(starts), dtype=bool)
        for index in doubtful:
            keep[index] = bool(self.data[starts[index] : stops[index]].strip(blank))
        return np.flatnonzero(keep)

    def raw(self, index: int) -> bytes:
        """Return a record as it stands in the file, without what separates it from the next one. A row is written as a
        line of CSV."""
        if self.batch is not None:
            assert self.mapping is not None
            return arrow_text.csv_line(self.mapping.row_values.texts(self.batch.slice(index, 1)))
        text = self.data[self.spans.starts[index] : self.spans.stops[index]]
        if self.format is Format.CSV:
            return text.removesuffix(b"\n").removesuffix(b"\r")
        text = text.strip(json_ends.SPACE)
        return text.removesuffix(b",").rstrip(json_ends.SPACE) if self.format is Format.JSON else text


def read(
    source: LandedFile,
    layout: Layout,
    piece: Range,
    sizer: Sizer,
    max_record_bytes: int,
    resume: Position | None = None,
) -> Iterator[Block]:
    """Yield the blocks of a range, from its beginning or from where an earlier reading ended."""
    if layout.format is Format.ROWS:
        yield from row_blocks(source, layout, piece, sizer, resume)
        return
    at = resume or Position(piece.start, piece.first_line)
    record_bytes = float(FIRST_GUESS)
    wanted = 0
    while at.start < piece.stop:
        wanted = max(wanted, LEAST_READ, int(min(sizer.rows * record_bytes * 1.05, sizer.max_bytes)))
        stop = min(at.start + min(wanted, max_record_bytes), piece.stop)
        block = whole_records(layout, source.read(at.start, stop), at, sizer.rows, stop == piece.stop)
        if block is None and stop - at.start < max_record_bytes:
            wanted = (stop - at.start) * 2
            continue
        block = block or oversized_record(source, layout, at, piece.stop)
        yield block
        if block.following.line > at.line and not block.oversized:
            record_bytes = block.size / (block.following.line - at.line)
        at, wanted = block.following, 0


def whole_records(layout: Layout, data: bytes, at: Position, rows: int, is_end: bool) -> Block | None:
    """Make a block of the records at the beginning of the data: of those that are whole, at most as many as are wanted.
    Return None if not even one is whole."""
    kind = layout.format
    match kind:
        case Format.CSV:
            ends, unclosed = csv_records(data, is_end, layout.dialect)
        case Format.NDJSON:
            ends, unclosed = None, False
        case Format.JSON:
            ends, unclosed = array_elements(data, is_end), False
        case Format.ROWS:
            raise AssertionError("rows are read by `row_blocks`")
    if ends is None:
        return plain_lines(kind, data, at, rows, is_end)
    if not len(ends):
        return None
    complete = len(ends) <= rows
    ends = ends[:rows]
    data = data[: ends[-1]]
    lines = len(ends) if kind is Format.JSON or layout.numbered else len(csv_ends.line_ends(data))
    following = Position(at.start + len(data), at.line + lines)
    return Block(kind, data, at, ends, following, unclosed=unclosed and complete, numbered=layout.numbered)


def plain_lines(kind: Format, data: bytes, at: Position, rows: int, is_end: bool) -> Block | None:
    stop = len(data) if is_end else data.rfind(b"\n") + 1
    if not stop:
        return None
    data = data[:stop]
    lines = csv_ends.count_newlines(data)
    if lines > rows:
        data = data[: csv_ends.after_newline(data, rows)]
        lines = rows
    return Block(kind, data, at, None, Position(at.start + len(data), at.line + lines))


def csv_records(data: bytes, is_end: bool, dialect: Dialect) -> tuple[Positions | None, bool]:
    """Return the position after each record, or None if every newline ends a record; and tell whether a quote is still
    open where the range ends."""
    structure = dialect.structure(data)
    if csv_ends.is_plain(structure) and dialect.escape is None:
        return None, False
    judged = structure if is_end else structure[: dialect.judgeable_length(data)]
    ends, state = csv_ends.record_ends(judged)
    newlines = csv_ends.count_newlines(data[: len(judged)])
    if not state.quoted and len(ends) == newlines and not csv_ends.has_lone_return(data):
        return None, False
    if is_end and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    return ends, is_end and state.quoted


def array_elements(data: bytes, is_end: bool) -> Positions:
    judged = data if is_end else data[: json_ends.judgeable_length(data)]
    ends = json_ends.scan(judged).ends
    return np.append(ends, len(data)) if is_end and (not len(ends) or ends[-1] < len(data)) else ends


def oversized_record(source: LandedFile, layout: Layout, at: Position, stop: int) -> Block:
    """Pass over a record that is too large, in constant memory, and make a block that holds its beginning."""
    kind, end, newlines = layout.format, stop, 0
    for base, data, first_end in first_ends(source, layout, at.start, stop):
        passed = data[:first_end]
        newlines += ranges.count_lines(passed) if kind is Format.CSV else csv_ends.count_newlines(passed)
        if first_end is not None:
            end = base + first_end
            break
    following = Position(end, at.line + (1 if kind is Format.JSON or layout.numbered else newlines))
    beginning = source.read(at.start, min(at.start + KEPT_OF_OVERSIZED, end))
    return Block(kind, beginning, at, None, following, oversized=True)


def first_ends(source: LandedFile, layout: Layout, start: int, stop: int) -> Iterator[tuple[int, bytes, int | None]]:
    """Yield a part of the file in blocks: the position and the bytes of each, and where in it the first record ends
    (None if none ends there)."""
    kind, dialect = layout.format, layout.dialect
    judgeable = {Format.CSV: dialect.judgeable_length, Format.NDJSON: len, Format.JSON: json_ends.judgeable_length}[
        kind
    ]
    quotes, nesting = csv_ends.START, json_ends.START
    for base, data in ranges.blocks(source, start, stop, judgeable):
        match kind:
            case Format.CSV:
                ends, quotes = csv_ends.record_ends(dialect.structure(data), quotes)
            case Format.NDJSON:
                ends = csv_ends.newline_ends(data)
            case Format.JSON:
                found = json_ends.scan(data, nesting)
                ends, nesting = found.ends, found.state
        yield base, data, int(ends[0]) if len(ends) else None


def row_blocks(
    source: LandedFile, layout: Layout, piece: Range, sizer: Sizer, resume: Position | None = None
) -> Iterator[Block]:
    """Yield the blocks of a range, from its beginning or from where an earlier reading ended."""
    at = resume or Position(piece.start, piece.first_line)
    schema, _ = rows.opened(source)
    waiting: list[Place] = []
    for place in rows.places(source, at.start, piece.stop):
        taken = [*waiting, place]
        many = sum(each.rows for each in taken) > sizer.rows
        if waiting and (many or sum(each.stop - each.start for each in taken) > sizer.max_bytes):
            block = block_of(source, layout, waiting, at, schema, place)
            yield block
            at, taken = block.following, [place]
        waiting = taken
    if waiting:
        yield block_of(source, layout, waiting, at, schema, None)


def block_of(
    source: LandedFile, layout: Layout, places: list[Place], at: Position, schema: pa.Schema, behind: Place | None
) -> Block:
    table = pa.Table.from_batches([rows.read(source, each, schema) for each in places]).combine_chunks()
    batch = table.to_batches()[0]
    numbers = batch.column(0).to_numpy()
    shift = at.line - int(numbers[0])
    following = Position(places[-1].stop, shift + (int(numbers[-1]) + 1 if behind is None else behind.first))
    lines = numbers.astype(np.int64) + shift
    return Block(Format.ROWS, b"", at, None, following, batch=batch, lines=lines, mapping=layout.mapping)
