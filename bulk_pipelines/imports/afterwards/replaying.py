"""The rejects of an import, written as files that can be imported again: every record as it stood in its file.

Nothing is changed in a record, so a record that was rejected as malformed is malformed again. The files are CSV, NDJSON
or JSON arrays, like those that the records come from.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from bulk_pipelines.formats.files import csv_ends
from bulk_pipelines.imports.load.rejects import Rejected
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.request import RequestedFile
from bulk_pipelines.storage.contract import Storage


@dataclass(frozen=True)
class Part:
    """One file of rejects: its number, and the layout of its records."""

    number: int
    layout: Layout

    def takes(self, layout: Layout) -> bool:
        return self.layout.written_like(layout)


def write(
    storage: Storage, job_key: str, files: Iterable[ImportFile], rejects: Iterable[Rejected]
) -> list[RequestedFile]:
    """Write the rejects to files and return these; there are none if no record was kept whole."""
    written = []
    for part, records in groupby(in_parts(files, rejects), key=lambda each: each[0]):
        kind = part.layout.format
        name = f"{job_key}-rejects.{part.number}.{kind}"
        with storage.publish(name) as sink:
            for piece in pieces(part.layout, (raw for _, raw in records)):
                sink.write(piece)
        written.append(RequestedFile(storage.url_of(name), storage.stat(name).size, format=kind, layout=part.layout))
    return written


def in_parts(files: Iterable[ImportFile], rejects: Iterable[Rejected]) -> Iterator[tuple[Part, bytes]]:
    """Yield the records that were kept whole, each with the file it goes to. A new file begins where the format or the
    columns change, and behind a record whose quote is never closed: its field would swallow the next records."""
    layouts = {file.base_line: file.layout.as_text for file in files if file.layout is not None}
    bases = list(layouts)
    part, closed = None, True
    for each in rejects:
        if each.raw_size is not None or not each.raw:
            continue  # only its beginning was kept, or it is empty: the place between two commas of a JSON array
        layout = layouts[bases[bisect_left(bases, each.line) - 1]]
        if part is None or not closed or not part.takes(layout):
            part = Part(part.number + 1 if part else 1, layout)
        closed = (
            layout.format is not Format.CSV or not csv_ends.record_ends(layout.dialect.structure(each.raw))[1].quoted
        )
        yield part, each.raw


def pieces(layout: Layout, records: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file with these records. A line stands before the first record, so that nothing in the
    record is taken for something that only the beginning of a file can hold, such as a byte order mark."""
    match layout.format:
        case Format.CSV:
            yield layout.header + b"\n"
            yield from (raw + b"\n" for raw in records)
        case Format.NDJSON:
            yield b"\n"
            yield from (raw + b"\n" for raw in records)
        case Format.JSON:
            yield b"[\n" + next(records)
            yield from (b",\n" + raw for raw in records)
            yield b"\n]\n"
        case Format.ROWS:
            raise AssertionError("rows are written as CSV")
