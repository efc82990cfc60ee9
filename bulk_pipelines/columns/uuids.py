"""Reading UUIDs, writing them, and making new ones, by columns. In memory an id is sixteen bytes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bulk_pipelines.columns.arrow import (
    Bytes,
    Column,
    Mask,
    Numbers,
    bitmap,
    buffer,
    compute,
    text_bytes,
    to_mask,
)

BINARY = pa.binary(16)
LENGTH = 36

# How many characters each group of digits, and each dash between them, has in the text. `GROUPS` and `DASHES` name
# them. The last twelve digits are two groups, because numpy has no integers of twelve bytes.
WIDTHS = {"a": 8, "-1": 1, "b": 4, "-2": 1, "c": 4, "-3": 1, "d": 4, "-4": 1, "e": 8, "f": 4}
TEXT = np.dtype([(group, f"u{width}") for group, width in WIDTHS.items()])
GROUPS = ["a", "b", "c", "d", "e", "f"]
DASHES = ["-1", "-2", "-3", "-4"]
DIGITS = np.dtype([(group, TEXT[group]) for group in GROUPS])
# For each group of digits: where it begins in the text, where it begins in the digits alone, and how long it is.
PLACES = ((0, 0, 8), (9, 8, 4), (14, 12, 4), (19, 16, 4), (24, 20, 12))
PAIRS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)
"""The two hexadecimal digits of each byte."""

# So many ids are handled at a time that they stay in the processor's cache.
PIECE = 4096


def parse(text: Column) -> Column:
    """Parse texts into ids. The result is null where there is no text, or where it is not an id."""
    fitting = to_mask(compute.equal(compute.binary_length(text), LENGTH))
    ids = np.zeros((len(text), 16), dtype=np.uint8)
    valid = np.zeros(len(text), dtype=bool)
    if fitting.all():
        ids, valid = parsed(text_bytes(text))
        return as_column(ids, None if valid.all() else valid)
    ids[fitting], valid[fitting] = parsed(text_bytes(text.filter(pa.array(fitting))))
    return as_column(ids, valid)


def parsed(characters: Bytes) -> tuple[Bytes, Mask]:
    """Parse texts of thirty-six characters that stand one behind the other. Return the bytes of each id, and which of
    the texts are ids."""
    count = len(characters) // LENGTH
    ids = np.empty((count, 16), dtype=np.uint8)
    valid = np.empty(count, dtype=bool)
    for start in range(0, count, PIECE):
        piece = characters[start * LENGTH : (start + PIECE) * LENGTH].view(TEXT)
        digits = np.empty(len(piece), dtype=DIGITS)
        for group in GROUPS:
            digits[group] = piece[group]
        hexadecimal: Bytes = digits.view(np.uint8)
        is_digit = ((hexadecimal - ord("0")) < 10) | (((hexadecimal | 0x20) - ord("a")) < 6)
        valid[start : start + PIECE] = is_digit.reshape(-1, 32).all(axis=1)
        for dash in DASHES:
            valid[start : start + PIECE] &= piece[dash] == ord("-")
        # A letter has the bit 0x40, and its value is nine more than its last four bits.
        values = ((hexadecimal & 0x0F) + 9 * (hexadecimal >> 6)).reshape(-1, 2)
        ids[start : start + PIECE] = ((values[:, 0] << 4) | values[:, 1]).reshape(-1, 16)
    return ids, valid


def as_column(ids: Bytes, valid: Mask | None = None) -> Column:
    """Turn rows of sixteen bytes into a column, which is null where a row is not valid."""
    missing = None if valid is None else bitmap(valid)
    return pa.Array.from_buffers(BINARY, len(ids), [missing, buffer(ids)])


def rows_of(ids: Column) -> Bytes:
    """Return the bytes of a column of ids, or of other values of one width, one row for each. The row of a null holds
    any bytes."""
    width: int = ids.type.byte_width
    data: Any = ids.buffers()[1]
    if data is None:
        return np.zeros((len(ids), width), dtype=np.uint8)
    rows: Bytes = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return rows[ids.offset : ids.offset + len(ids)]


def is_identifier(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType) or kind == BINARY


def to_text(column: Column) -> Column:
    """Write ids as text in the form that PostgreSQL writes; null stays null. PostgreSQL sends the sixteen bytes of an
    id in half the time that its text takes, so exports write the text themselves."""
    ids = column.storage if isinstance(column, pa.ExtensionArray) else column
    rows = rows_of(ids)
    text = np.full((len(rows), LENGTH), ord("-"), dtype=np.uint8)
    for start in range(0, len(rows), PIECE):
        digits = PAIRS[rows[start : start + PIECE]].view(np.uint8)
        for at, begin, width in PLACES:
            text[start : start + PIECE, at : at + width] = digits[:, begin : begin + width]
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(LENGTH)
    valid = bitmap(to_mask(ids.is_valid())) if ids.null_count else None
    return pa.StringArray.from_buffers(len(rows), buffer(offsets), buffer(text), valid)


def made_of(seed: bytes, lines: Numbers) -> Column:
    """Make an id for each line of the file whose hash is the seed. The same line of the same file always gets the same
    id."""
    first, second = (np.uint64(int.from_bytes(seed[start : start + 8], "big")) for start in (0, 8))
    numbers = lines.astype(np.uint64)
    ids = np.empty((len(lines), 16), dtype=np.uint8)
    ids[:, :8] = mixed(numbers ^ first).astype(">u8").view(np.uint8).reshape(-1, 8)
    ids[:, 8:] = mixed(numbers ^ second).astype(">u8").view(np.uint8).reshape(-1, 8)
    ids[:, 6] = (ids[:, 6] & 0x0F) | 0x80  # version 8: made in a way that no standard defines
    ids[:, 8] = (ids[:, 8] & 0x3F) | 0x80
    return as_column(ids)


def mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread numbers over all 64 bits; different numbers stay different (this is the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
