"""Finding where the records of a CSV file end.

Quotes are read as Python's csv module and Arrow read them: a quote opens a field only at its very beginning, a doubled
quote inside a quoted field is a character, and a newline inside quotes ends nothing.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]

QUOTE, COMMA, NEWLINE, RETURN = b'",\n\r'
BEFORE_FIELD = np.zeros(256, dtype=bool)
BEFORE_FIELD[[COMMA, NEWLINE, RETURN]] = True

# How many quotes are looked at together where there are stray ones. These are found one by one, and each costs a look
# at the quotes behind it: at so many, not at all of them.
WINDOW = 4096
# Newlines are counted in pieces of so many bytes, which stay in the processor's cache.
PIECE = 256 * 1024


@dataclass(frozen=True)
class QuoteState:
    """What a reader knows at a byte of the file: whether it is inside quotes, and which byte came before."""

    quoted: bool = False
    previous: int = NEWLINE


START = QuoteState()


def array_of(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def has_lone_return(data: bytes) -> bool:
    """Tell whether a carriage return ends a line by itself, as on old Macs."""
    return b"\r" in data and data.count(b"\r") != data.count(b"\r\n")


def is_plain(data: bytes) -> bool:
    """Tell whether every newline ends a record, and nothing else does."""
    return b'"' not in data and not has_lone_return(data)


def newline_ends(data: bytes) -> Positions:
    """Return the position after each newline."""
    return np.flatnonzero(array_of(data) == NEWLINE) + 1


def line_ends(data: bytes) -> Positions:
    """Return the position after each line, whether or not a record ends there."""
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
    """Return the position after the newline of this number, counted from 1."""
    view = array_of(data)
    for start in range(0, len(view), PIECE):
        piece = view[start : start + PIECE] == NEWLINE
        count = int(np.count_nonzero(piece))
        if number <= count:
            return start + int(np.flatnonzero(piece)[number - 1]) + 1
        number -= count
    raise IndexError(number)


def judgeable_length(data: bytes) -> int:
    """Return how many bytes of a block can be judged without the byte behind it: all but a run of quotes, or a carriage
    return, at its end."""
    kept = data.rstrip(b'"')
    return len(kept.removesuffix(b"\r")) if len(kept) == len(data) else len(kept)


def record_ends(data: bytes, state: QuoteState = START) -> tuple[Positions, QuoteState]:
    """Return the position after each record that ends in this block, and what a reader knows at the end of the block.

    The block must end where `judgeable_length` says, or the file must end with the block.
    """
    ends = line_ends(data)
    last = data[-1] if data else state.previous
    if b'"' not in data:
        return (ends[:0] if state.quoted else ends), QuoteState(state.quoted, last)
    toggles = toggling_quotes(data, state)
    inside = (np.searchsorted(toggles, ends) + state.quoted) % 2 == 1
    return ends[~inside], QuoteState(bool((len(toggles) + state.quoted) % 2), last)


def field_ends(data: bytes) -> Positions:
    """Return the position of each byte that ends a field: of delimiters, and of both bytes at the end of a line. The
    data must begin with a record."""
    ends: Positions = np.flatnonzero(BEFORE_FIELD[array_of(data)])
    if b'"' not in data:
        return ends
    inside: npt.NDArray[np.bool_] = np.searchsorted(toggling_quotes(data, START), ends) % 2 == 1
    return ends[~inside]


def toggling_quotes(data: bytes, state: QuoteState) -> Positions:
    """Return the positions of the quotes that open and close, by turns. Quotes that are characters are left out."""
    view = array_of(data)
    quotes = np.flatnonzero(view == QUOTE)
    before = view[quotes - 1]  # a quote at position 0 gets the last byte here; the next lines put that right
    if quotes[0] == 0:
        before[0] = state.previous
    at_field = BEFORE_FIELD[before]
    # The second of a doubled quote opens again what the first has just closed.
    doubles = np.concatenate(([False], np.diff(quotes) == 1))
    if plausible(at_field, doubles, state.quoted).all():
        return quotes
    return without_strays(quotes, at_field, doubles, state.quoted)


def plausible(at_field: npt.NDArray[np.bool_], doubles: npt.NDArray[np.bool_], quoted: bool) -> npt.NDArray[np.bool_]:
    """Tell which quotes may open or close, if all of them are taken to do so by turns. One that closes always may; one
    that opens must begin a field, or be the second of a doubled quote."""
    possible = at_field | doubles
    possible[int(not quoted) :: 2] = True
    return possible


def without_strays(
    quotes: Positions, at_field: npt.NDArray[np.bool_], doubles: npt.NDArray[np.bool_], quoted: bool
) -> Positions:
    """Return the quotes that open or close, by exact reading: a quote that would open in the middle of a field is a
    character, and neither opens nor closes."""
    kept: list[Positions] = []
    position, fresh = 0, True
    while position < len(quotes):
        window = slice(position, position + WINDOW)
        may_double = doubles[window].copy()
        if fresh:
            may_double[0] = False  # the quote before it, if any, was a character and closed nothing
        possible = plausible(at_field[window], may_double, quoted)
        wrong = int(np.argmin(possible))
        fresh = not possible[wrong]
        good = wrong if fresh else len(possible)
        kept.append(quotes[position : position + good])
        quoted ^= bool(good % 2)
        position += good + fresh
    return np.concatenate(kept) if kept else quotes[:0]
