"""Previews: a file, or its beginning, is sent like one that is to be imported, and nothing of it is kept."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.files.sent import SentBody, SentForm
from bulk_pipelines.api.imports.requests import flag
from bulk_pipelines.imports.report import beginnings
from bulk_pipelines.imports.report.preview import Preview
from bulk_pipelines.imports.request import Options
from bulk_pipelines.storage.errors import OverLimit

LARGEST = 32 << 20
"""How many bytes a preview takes. The beginning of a larger file is enough."""


class Mapped(BaseModel):
    """A column, and where its values come from: a field, a constant or an expression."""

    column: str
    field: str | None
    constant: str | None
    expression: str | None


class RejectedRecord(BaseModel):
    """A record that would be rejected."""

    line: int
    reasons: list[dict[str, str]]
    record: str


class PreviewAnswer(BaseModel):
    """How a file would be read. If it cannot be imported as it was asked, `problem` says why, and `remedy` has the
    options with which it can; the rest then is what is found with them."""

    source: Annotated[str, Field(examples=["users.csv"])]
    resource: Annotated[str, Field(examples=["users"])]
    format: str | None
    recognised: Annotated[dict[str, str], Field(examples=[{"encoding": "utf-8", "delimiter": "comma"}])]
    columns: list[Mapped]
    left_out: Annotated[list[str], Field(description="The fields of the file that go to no column.")]
    without: Annotated[list[str], Field(description="The columns that the file does not give.")]
    records: Annotated[list[dict[str, str | None]], Field(description="The first good records, by column.")]
    judged: Annotated[int, Field(description="How many records from the beginning were judged.")]
    rejected: int
    reasons: Annotated[dict[str, int], Field(description="How often each reason was given.")]
    rejects: list[RejectedRecord]
    files: Annotated[list[str], Field(description="The files of an archive that holds several.")]
    problem: str | None
    remedy: Annotated[dict[str, Any], Field(description="Options that are needed besides those that were given.")]
    reading: Annotated[dict[str, Any], Field(description="How the file is read, with the remedy.")]

    @classmethod
    def of(cls, found: Preview) -> Self:
        told = vars(found) | {
            "columns": [vars(each) for each in found.columns],
            "rejects": [vars(each) for each in found.rejects],
            "remedy": {name: plain(value) for name, value in found.remedy.items()},
            "reading": found.reading.as_params(),
        }
        return cls.model_validate(told)


def plain(value: Any) -> Any:
    """Return the value of an option as JSON can have it: pairs are an object."""
    if isinstance(value, tuple) and value and all(isinstance(each, tuple) for each in value):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def looked(door: Door, arrival: SentForm[Options] | SentBody[Options]) -> Preview:
    """Look at a file while it arrives. A file that is larger than `LARGEST` is refused, unless its sender has cut
    it."""
    with tempfile.TemporaryDirectory(prefix="bulk-preview-") as folder:
        path = Path(folder) / "file"
        size = 0
        with path.open("wb") as file:
            for piece in arrival.pieces():
                size += len(piece)
                if size > LARGEST:
                    raise OverLimit("file", f"has more than {LARGEST:,} bytes: send its beginning, with cut=true")
                file.write(piece)
        options = arrival.options()
        if options.compression is None and arrival.compression is not None:
            options = replace(options, compression=arrival.compression)
        cut = flag("cut", arrival.fields().get("cut", ""))
        return beginnings.looked_at(door.pool, options, path, arrival.name or "the file", door.settings, cut=cut)
