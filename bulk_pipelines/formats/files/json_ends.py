"""Finding where the elements of a JSON array end: after each comma, or before the bracket, of the array itself."""

from dataclasses import dataclass

import numpy as np

from bulk_pipelines.formats.files.csv_ends import Positions, array_of

QUOTE, BACKSLASH, COMMA = b'"\\,'
SPACE = b" \t\r\n"
"""The characters that are white space in JSON: fewer than in Python."""
DEEPER = np.zeros(256, dtype=np.int8)
DEEPER[list(b"[{")] = 1
DEEPER[list(b"]}")] = -1
STRUCTURAL = DEEPER != 0
STRUCTURAL[COMMA] = True


@dataclass(frozen=True)
class JsonState:
    """What a reader knows at a byte of the file: whether it is inside a string, and inside how many brackets of the
    element."""

    in_string: bool = False
    depth: int = 0


START = JsonState()


@dataclass(frozen=True)
class Scan:
    """What a scan found in a block. `ends` are the positions after each comma that separates elements. `close` is where
    the closing bracket of the array itself stands, if it is in the block. `strings` are the quotes that begin and end
    strings. `state` is what a reader knows at the end of the block."""

    ends: Positions
    close: int | None
    strings: Positions
    state: JsonState


def judgeable_length(data: bytes) -> int:
    """Return how many bytes of a block to judge now: all but a run of backslashes at its end. They go with the block
    that follows, which can then be judged without the byte before it."""
    return len(data.rstrip(b"\\"))


def scan(data: bytes, state: JsonState = START) -> Scan:
    """Look through a block, which must end where `judgeable_length` says, or where the file ends."""
    view = array_of(data)
    strings = string_quotes(data)
    marks = np.flatnonzero(STRUCTURAL[view])
    outside = (np.searchsorted(strings, marks) + state.in_string) % 2 == 0
    marks = marks[outside]
    depths = np.cumsum(DEEPER[view[marks]], dtype=np.int64) + state.depth
    closes = np.flatnonzero(depths < 0)
    close = int(marks[closes[0]]) if len(closes) else None
    commas = marks[(view[marks] == COMMA) & (depths == 0)]
    ends = (commas if close is None else commas[commas < close]) + 1
    return Scan(
        ends,
        close,
        strings,
        JsonState(bool((len(strings) + state.in_string) % 2), int(depths[-1]) if len(depths) else state.depth),
    )


def string_quotes(data: bytes) -> Positions:
    """Return the positions of the quotes that are not escaped: those behind an even number of backslashes."""
    view = array_of(data)
    quotes = np.flatnonzero(view == QUOTE)
    if b'\\"' not in data:
        return quotes
    after_backslash = view[quotes - 1] == BACKSLASH
    after_backslash[quotes == 0] = False
    doubtful = quotes[after_backslash]
    backslashes = np.flatnonzero(view == BACKSLASH)
    opens_run = np.concatenate(([True], np.diff(backslashes) > 1))
    run_starts = backslashes[opens_run][np.cumsum(opens_run) - 1]
    lengths = doubtful - run_starts[np.searchsorted(backslashes, doubtful - 1)]
    escaped = np.zeros(len(quotes), dtype=bool)
    escaped[after_backslash] = lengths % 2 == 1
    return quotes[~escaped]
