"""How the records of a CSV file are written: what separates their fields, and what protects a separator in a field."""

import secrets
from dataclasses import dataclass

import numpy as np

from bulk_pipelines.formats.files import csv_ends


@dataclass(frozen=True)
class Dialect:
    """`nulls` are the spellings of no value, besides the empty field. A quoted spelling is a text. They are compared
    with fields as these stand in the file, where an escape character means nothing yet: MySQL writes \\N, and not N."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    nulls: tuple[str, ...] = ()

    def structure(self, data: bytes) -> bytes:
        """Return as many bytes, in which commas and double quotes stand where this dialect has its delimiters and
        quotes, and nowhere else. So whoever looks for the ends of records need only know these."""
        if (self.delimiter, self.quote, self.escape) == (",", '"', None):
            return data
        if self.escape is not None:
            data = self.without_escaped(data)
        own = self.delimiter + (self.quote or "")
        others = "".join({",", '"'} - set(own))
        return data.translate(bytes.maketrans((own + others).encode(), (',"'[: len(own)] + "x" * len(others)).encode()))

    def without_escaped(self, data: bytes) -> bytes:
        """Replace every byte that is escaped. In a run of escape characters, every second one is escaped itself."""
        assert self.escape is not None
        changed = np.frombuffer(data, dtype=np.uint8).copy()
        marks = np.flatnonzero(changed == ord(self.escape))
        if len(marks):
            begins = np.concatenate(([True], np.diff(marks) != 1))
            firsts = marks[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
            escaped = marks[(marks - firsts) % 2 == 0] + 1
            changed[escaped[escaped < len(changed)]] = ord("x")
        return changed.tobytes()

    def with_nulls_marked(self, data: bytes) -> tuple[bytes, str]:
        """Return the records with a mark in the place of each spelling of no value, and this mark, which stands nowhere
        else in them. The data must begin with a record."""
        mark = secrets.token_hex(8)
        while mark.encode() in data:
            mark = secrets.token_hex(8)
        ends = csv_ends.field_ends(self.structure(data))
        starts = np.concatenate(([0], ends + 1))
        lengths = np.append(ends, len(data)) - starts
        view = np.frombuffer(data, dtype=np.uint8)
        is_none = np.zeros(len(starts), dtype=bool)
        for spelling in map(str.encode, self.nulls):
            if self.quote is not None and spelling.startswith(self.quote.encode()):
                continue  # a field that begins like this is quoted, and a text
            fields = np.flatnonzero((lengths == len(spelling)) & (lengths > 0))
            for offset, byte in enumerate(spelling):
                fields = fields[view[starts[fields] + offset] == byte]
            is_none[fields] = True
        pieces, position = [], 0
        for start, length in zip(starts[is_none].tolist(), lengths[is_none].tolist(), strict=True):
            pieces += [data[position:start], mark.encode()]
            position = start + length
        return b"".join([*pieces, data[position:]]), mark

    def judgeable_length(self, data: bytes) -> int:
        """Return how many bytes of a block can be judged without the byte behind it."""
        if self.escape is not None:
            # A carriage return that is escaped counts as a line only if no newline is behind it.
            data = data.removesuffix(b"\r").rstrip(self.escape.encode())
        return csv_ends.judgeable_length(self.structure(data))


STANDARD = Dialect()
