"""Where the records of a CSV file end.

The same reading of quotes as Python's csv module and Arrow: a quote opens a field only at its very beginning, a doubled
one inside is a character, and a newline inside quotes ends nothing.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]

QUOTE, COMMA, NEWLINE, RETURN = b'",\n\r'
BEFORE_FIELD = np.zeros(256, dtype=bool)
BEFORE_FIELD[[COMMA, NEWLINE, RETURN]] = True

# Stray quotes are met one by one: each costs a look at so many quotes behind it, not at all of them.
WINDOW = 4096
# Counting in pieces stays in the processor's cache.
PIECE = 256 * 1024


@dataclass(frozen=True)
class QuoteState:
    """How it stands at a byte of the file: inside quotes or not, and the byte before."""

    quoted: bool = False
    previous: int = NEWLINE


START = QuoteState()


def array_of(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def has_lone_return(data: bytes) -> bool:
    """Whether a carriage return ends lines by itself, as on old Macs."""
    return b"\r" in data and data.count(b"\r") != data.count(b"\r\n")


def is_plain(data: bytes) -> bool:
    """Whether every newline ends a record."""
    return b'"' not in data and not has_lone_return(data)


def newline_ends(data: bytes) -> Positions:
    """The positions after each newline."""
    return np.flatnonzero(array_of(data) == NEWLINE) + 1


def line_ends(data: bytes) -> Positions:
    """The positions after each line, whether or not it ends a record."""
    ends = newline_ends(data)
    if not has_lone_return(data):
        return ends
    view = array_of(data)
    returns = np.flatnonzero(view == RETURN)
    following = view[np.minimum(returns + 1, len(view) - 1)]
    return np.union1d(ends, returns[following != NEWLINE] + 1)


def count_newlines(data: bytes) -> int:
    view = array_of(data)
    return sum(int(np.count_nonzero(view[start : start + PIECE] == NEWLINE)) for start in range(0, len(view), PIECE))


def after_newline(data: bytes, number: int) -> int:
    """The position after the newline of this number, counted from 1."""
    view = array_of(data)
    for start in range(0, len(view), PIECE):
        piece = view[start : start + PIECE] == NEWLINE
        count = int(np.count_nonzero(piece))
        if number <= count:
            return start + int(np.flatnonzero(piece)[number - 1]) + 1
        number -= count
    raise IndexError(number)


def judgeable_length(data: bytes) -> int:
    """How much of a block can be judged without the byte behind it: not a last run of quotes, nor a last return."""
    kept = data.rstrip(b'"')
    return len(kept.removesuffix(b"\r")) if len(kept) == len(data) else len(kept)


def record_ends(data: bytes, state: QuoteState = START) -> tuple[Positions, QuoteState]:
    """The positions after each record that ends here, and how it stands at the end.

    The block must end where `judgeable_length` says, or the file must end with it.
    """
    ends = line_ends(data)
    last = data[-1] if data else state.previous
    if b'"' not in data:
        return (ends[:0] if state.quoted else ends), QuoteState(state.quoted, last)
    toggles = toggling_quotes(data, state)
    inside = (np.searchsorted(toggles, ends) + state.quoted) % 2 == 1
    return ends[~inside], QuoteState(bool((len(toggles) + state.quoted) % 2), last)


def toggling_quotes(data: bytes, state: QuoteState) -> Positions:
    """The quotes that open or close; every second one opens. Leaves out those that are plain characters."""
    view = array_of(data)
    quotes = np.flatnonzero(view == QUOTE)
    before = view[quotes - 1]  # position 0 looks at the last byte: put right in the next line
    if quotes[0] == 0:
        before[0] = state.previous
    at_field = BEFORE_FIELD[before]
    # The second of a doubled quote opens again what the first has just closed.
    doubles = np.concatenate(([False], np.diff(quotes) == 1))
    if plausible(at_field, doubles, state.quoted).all():
        return quotes
    return without_strays(quotes, at_field, doubles, state.quoted)


def plausible(at_field: npt.NDArray[np.bool_], doubles: npt.NDArray[np.bool_], quoted: bool) -> npt.NDArray[np.bool_]:
    """Of quotes that are taken to toggle, one and all: whether each may. A closing one always may."""
    possible = at_field | doubles
    possible[int(not quoted) :: 2] = True
    return possible


def without_strays(
    quotes: Positions, at_field: npt.NDArray[np.bool_], doubles: npt.NDArray[np.bool_], quoted: bool
) -> Positions:
    """The exact reading: a quote that would open in the middle of a field is a character and toggles nothing."""
    kept: list[Positions] = []
    position, fresh = 0, True
    while position < len(quotes):
        window = slice(position, position + WINDOW)
        may_double = doubles[window].copy()
        if fresh:
            may_double[0] = False  # the quote before it was none that closed
        possible = plausible(at_field[window], may_double, quoted)
        wrong = int(np.argmin(possible))
        fresh = not possible[wrong]
        good = wrong if fresh else len(possible)
        kept.append(quotes[position : position + good])
        quoted ^= bool(good % 2)
        position += good + fresh
    return np.concatenate(kept) if kept else quotes[:0]
