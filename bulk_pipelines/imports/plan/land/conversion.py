"""Converting landed files that records cannot be read from as they are: archives are opened, tables become rows, and
text becomes UTF-8. All of it is done once, while a job is planned."""

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO, cast

import pyarrow as pa

from bulk_pipelines.errors import BulkError, InvalidInput
from bulk_pipelines.formats import parquet_rows, rows, xlsx_book
from bulk_pipelines.formats.files import archives, encodings, workbooks
from bulk_pipelines.formats.files.archives import Archive
from bulk_pipelines.formats.reading import FileFormat, Reading
from bulk_pipelines.formats.xlsx_rows import Reader
from bulk_pipelines.imports.plan.land.landed_file import LandedFile
from bulk_pipelines.storage import landing
from bulk_pipelines.storage.compression import Compression, limited, recognised
from bulk_pipelines.storage.contract import Entry, Storage
from bulk_pipelines.storage.landing import Landed, Limits
from bulk_pipelines.storage.seeking import SeekableFile

HEAD = 64 * 1024
PIECE = 1 << 20
TABLES = (parquet_rows.PARQUET, parquet_rows.ARROW, parquet_rows.STREAM)


@dataclass(frozen=True)
class Part:
    """What came of a file, or of one file of an archive that holds several; then `member` is its name there."""

    landed: Landed
    member: str | None = None
    is_final: bool = True
    """Whether the records can be read; a file of an archive may have to be converted itself."""


@dataclass(frozen=True)
class Conversion:
    """What is known when files are converted: how they are to be read, where the results go, and under which limits."""

    reading: Reading
    format: FileFormat | None
    into: Storage
    limits: Limits

    def parts(self, source: LandedFile, name: str, shown: str, *, inside: bool = False) -> list[Part] | None:
        """Convert a landed file; return what came of it, or None if it can be read as it is. `name` is what the results
        are named by, and `inside` tells that the file came out of an archive."""
        head = source.read(0, min(HEAD, source.size))
        if head.startswith(archives.MAGICS):
            archive = Archive(source, shown, self.limits)
            if archive.is_workbook:
                self.refuse_told(FileFormat.XLSX)
                return [Part(self.keep(self.sheet(archive), source.size, name, shown))]
            if inside:
                raise InvalidInput("source", f"{shown} is an archive in an archive: pack its files themselves")
            return list(self.members(archive, name, shown))
        pieces = self.pieces(source, head)
        return None if pieces is None else [Part(self.keep(pieces, source.size, name, shown))]

    def members(self, archive: Archive, name: str, shown: str) -> Iterator[Part]:
        """Land the files of an archive."""
        members = archive.members(self.reading.member)
        for number, member in enumerate(members, 1):
            pieces = archive.unpack(member)
            first = next(pieces, b"")
            if recognised(first) is not Compression.NONE:
                told = f"{shown}/{member.filename} is compressed again in the archive: pack it as it is"
                raise InvalidInput("source", told)
            landed = self.keep(chain([first], pieces), archive.source.size, f"{name}.{number:04}", shown)
            yield Part(landed, member.filename if len(members) > 1 else None, is_final=False)

    def pieces(self, source: LandedFile, head: bytes) -> Iterator[bytes] | None:
        """Return what the file is to be landed as, in pieces; None if it stays as it is."""
        if head.startswith(parquet_rows.PARQUET):
            self.refuse_told(FileFormat.PARQUET)
            return self.table(source, parquet_rows.parquet)
        if head.startswith((parquet_rows.ARROW, parquet_rows.STREAM)):
            self.refuse_told(FileFormat.ARROW)
            return self.table(source, parquet_rows.arrow)
        encoding = encodings.found(head, self.reading.encoding)
        if encoding is None:
            return None
        starts = range(0, source.size, PIECE)
        return encodings.transcoded((source.read(start, min(start + PIECE, source.size)) for start in starts), encoding)

    def refuse_told(self, found: FileFormat) -> None:
        if self.format is not None and self.format is not found:
            raise InvalidInput("format", f"the file was said to be {self.format}, but it looks like {found}")

    def table(self, source: LandedFile, read: Callable[[BinaryIO, float], parquet_rows.Table]) -> Iterator[bytes]:
        try:
            file = cast(BinaryIO, io.BufferedReader(SeekableFile(source.size, source.read), PIECE))
            schema, batches = read(file, self.limits.ratio)
            yield from rows.written(schema, batches)
        except BulkError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:300]
            raise InvalidInput("source", f"the table cannot be read: {reason}") from None

    def sheet(self, archive: Archive) -> Iterator[bytes]:
        book = xlsx_book.read(archive.unpack)
        name, part = workbooks.chosen(archive, book, self.reading.sheet)
        reading = self.reading
        told = (reading.skip_lines, reading.no_header, reading.fields)
        reader = Reader(archive.unpack, book, name, part, *told, numbers=reading.decimal is not None)
        schema, batches = reader.table()
        yield from rows.written(schema, batches)

    def keep(self, pieces: Iterator[bytes], size: int, name: str, shown: str) -> Landed:
        """Write what came of a file. Doing it again comes to the same."""
        bounded = limited(pieces, self.limits.largest, self.limits.ratio, lambda: size, shown)
        limits = Limits(self.limits.largest, self.limits.ratio)
        return landing.land_stream(
            bounded, Entry(name, 0, None, name), shown, self.into, name, limits, Compression.NONE
        )


def bundle_of(source: LandedFile, shown: str, limits: Limits) -> Archive | None:
    """Return the bundle that a landed file is; None if it is something else."""
    if not source.read(0, min(HEAD, source.size)).startswith(archives.MAGICS):
        return None
    archive = Archive(source, shown, limits)
    return archive if archive.is_bundle else None


def named(raw: str, reading: Reading) -> str:
    """Return a mark for the name of what a landed file becomes. It differs for each way to read the file, so that a
    result of another way is never taken for this one."""
    return hashlib.sha256(f"{raw}\n{json.dumps(reading.as_params(), sort_keys=True)}".encode()).hexdigest()[:12]
