"""Zip archives: which of their files are meant, and unpacking these within limits. The names in an archive are shown
and compared with a pattern; no file is ever written under one of them."""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from lzma import LZMAError
from pathlib import PurePosixPath

from bulk_pipelines.errors import BulkError, InvalidInput
from bulk_pipelines.formats.rows import Source
from bulk_pipelines.storage import bundles
from bulk_pipelines.storage.compression import HARMLESS, PIECE
from bulk_pipelines.storage.errors import BadCompression, OverLimit
from bulk_pipelines.storage.landing import Limits
from bulk_pipelines.storage.seeking import SeekableFile

MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
MOST_FILES = 1_000
DIRECTORY = 16 << 20
"""How many bytes the list of an archive's files may have."""
TAIL = 66_000
END, END_64 = b"PK\x05\x06", b"PK\x06\x06"
OFFICE = {
    "xl/workbook.bin": "a binary workbook (.xlsb)",
    "content.xml": "an OpenDocument file",
    "word/document.xml": "a document of Word",
    "ppt/presentation.xml": "a presentation",
}


@dataclass
class Archive:
    """An opened archive. `unpacked` counts what was unpacked of all its files together."""

    source: Source
    shown: str
    limits: Limits
    unpacked: int = 0
    zip: zipfile.ZipFile = field(init=False)

    def __post_init__(self) -> None:
        self.refuse_long_directory()
        try:
            self.zip = zipfile.ZipFile(SeekableFile(self.source.size, self.source.read))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise BadCompression("source", f"{self.shown}: the zip archive is damaged: {error}") from None

    def refuse_long_directory(self) -> None:
        """Refuse an archive of so many files that their list would fill the memory, before the list is read."""
        tail = self.source.read(max(0, self.source.size - TAIL), self.source.size)
        end, end_64 = tail.rfind(END), tail.rfind(END_64)
        size = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
        if end_64 >= 0:
            size = max(int.from_bytes(tail[end_64 + 40 : end_64 + 48], "little"), size if size != 0xFFFFFFFF else 0)
        if size > DIRECTORY:
            raise OverLimit("source", f"{self.shown} holds too many files: their list has {size} bytes")

    def has(self, name: str) -> bool:
        return name in self.zip.NameToInfo

    @property
    def is_bundle(self) -> bool:
        return self.zip.comment == bundles.MARK

    @property
    def is_workbook(self) -> bool:
        return self.has("xl/workbook.xml")

    def bundled(self) -> list[zipfile.ZipInfo]:
        """Return the files of a bundle, in their order."""
        found = self.zip.infolist()
        if len(found) > bundles.MOST_FILES:
            raise OverLimit("source", f"{self.shown} holds {len(found):,} files, more than {bundles.MOST_FILES:,}")
        return found

    def members(self, pattern: str | None) -> list[zipfile.ZipInfo]:
        """Return the files that are meant, in the order of their names: all but folders and what systems leave in
        archives."""
        for name, kind in OFFICE.items():
            if self.has(name) and (self.has("[Content_Types].xml") or self.has("mimetype")):
                raise InvalidInput("source", f"the file is {kind}: save it as .xlsx or CSV")
        found = [each for each in self.zip.infolist() if not each.is_dir() and not is_aside(each.filename)]
        if pattern is not None:
            found = [each for each in found if fits(each.filename, pattern)]
        if not found:
            raise InvalidInput(
                "member" if pattern else "source",
                "the zip archive holds no file" + (f" like {pattern}" if pattern else ""),
            )
        if len(found) > MOST_FILES:
            raise OverLimit("source", f"{self.shown} holds {len(found)} files, more than {MOST_FILES}")
        return sorted(found, key=lambda each: each.filename)

    def unpack(self, member: zipfile.ZipInfo | str) -> Iterator[bytes]:
        """Yield the bytes of a file of the archive; none if it has no file of this name."""
        if isinstance(member, str):
            if not self.has(member):
                return
            member = self.zip.NameToInfo[member]
        shown = f"{self.shown}/{member.filename}"
        if member.flag_bits & 1:
            raise InvalidInput("source", f"{shown} has a password: save the file without one")
        try:
            with self.zip.open(member) as reader:
                while piece := reader.read(PIECE):
                    self.count(len(piece))
                    yield piece
        except BulkError:
            raise
        except NotImplementedError:
            raise BadCompression(
                "source", f"{shown} is packed by a method that cannot be unpacked here: pack it with deflate"
            ) from None
        except (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, ValueError, RuntimeError) as error:
            raise BadCompression("source", f"{shown} is damaged: {error}") from None

    def count(self, size: int) -> None:
        self.unpacked += size
        if self.unpacked > self.limits.largest:
            raise OverLimit(
                "source", f"{self.shown} holds more than {self.limits.largest} bytes, see BULK_LANDING_MAX_BYTES"
            )
        if self.unpacked > HARMLESS and self.unpacked > self.limits.ratio * self.source.size:
            raise OverLimit(
                "source",
                f"{self.shown} unpacks to more than {self.limits.ratio:g} times its size, see BULK_LANDING_MAX_RATIO",
            )


def is_aside(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return "__MACOSX" in parts or any(part.startswith(".") and part not in {".", ".."} for part in parts)


def fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(PurePosixPath(name).name, pattern)
