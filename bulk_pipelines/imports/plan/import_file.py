"""One of the files of an import, as its plan knows it."""

from dataclasses import dataclass
from typing import Any

from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.request import RequestedFile

LONGEST_SHOWN = 1_000


@dataclass(frozen=True)
class ImportFile:
    """What was asked for, and what the plan made of it. If the file was a duplicate or
    could not be used, `landed` is None and `note` says why."""

    number: int
    requested: RequestedFile
    source: str
    """The address of the file, as it may be shown."""
    landed: str | None = None
    landed_version: str | None = None
    """The version of the landed copy; None if it was landed before versions were noted."""
    size: int | None = None
    sha256: str | None = None
    layout: Layout | None = None
    base_line: int = 0
    duplicate: bool = False
    note: str | None = None
    archive: int | None = None
    """The number of the archive that the file lies in, if that holds several. Such files are known when it was opened;
    they count behind all files that were asked for."""

    def as_outcome(self) -> dict[str, Any]:
        note = None if self.note is None else self.note[:LONGEST_SHOWN]
        source = self.source[:LONGEST_SHOWN]
        return {"source": source, "sha256": self.sha256, "duplicate": self.duplicate, "note": note}

    @property
    def left_out(self) -> bool:
        """Whether the file could not be used; a duplicate does not count as left out."""
        return self.note is not None and not self.duplicate

    @property
    def dealt_with(self) -> bool:
        """Whether the file was landed, or it was decided that it is not."""
        return self.landed is not None or self.note is not None or self.is_opened

    @property
    def is_opened(self) -> bool:
        """Whether the file is an archive of several files, which are landed in its place."""
        return self.landed is None and not self.duplicate and self.note is None and self.sha256 is not None
