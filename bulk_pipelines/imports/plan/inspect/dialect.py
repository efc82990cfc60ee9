"""How the records of a CSV file are written: what separates their fields, and what protects a separator in a field."""

from dataclasses import dataclass

import numpy as np

from bulk_pipelines.formats.files import csv_ends


@dataclass(frozen=True)
class Dialect:
    """`nulls` are the spellings of no value, besides the empty field. A quoted spelling is a text."""

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

    def judgeable_length(self, data: bytes) -> int:
        """Return how many bytes of a block can be judged without the byte behind it."""
        if self.escape is not None:
            data = data.rstrip(self.escape.encode())
        return csv_ends.judgeable_length(self.structure(data))


STANDARD = Dialect()
