"""The request for an import: what is to be loaded, from where, and how many rejects it accepts."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from bulk_pipelines import resources
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.reading import STANDARD, FileFormat, Reading
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.imports.counts import Counts, records_were
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.resources import written
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage import addresses
from bulk_pipelines.storage.compression import Compression

LIMIT = re.compile(r"(\d{1,18})(%?)")
ENOUGH_FOR_A_SHARE = 1_000
"""How many records must have been read before a share of rejects may abort an import that still runs."""


def kind_name(resource: str) -> str:
    """Return the name of the kind of job that imports of a resource are to the engine. Tables that nobody has declared
    have one kind for all of them."""
    return f"import_{written.job_name(resource)}"


@dataclass(frozen=True)
class ErrorPolicy:
    """How many rejects an import accepts: a number or a share; any number if both are None."""

    most: int | None = None
    percent: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        if text == "continue":
            return cls()
        if text == "abort":
            return cls(most=0)
        found = LIMIT.fullmatch(text)
        if found is None:
            raise InvalidInput(
                "on_error", f"{text[:100]!r} is none of continue, abort, a number (100), or a share (5%)"
            )
        number = int(found[1])
        if not found[2]:
            return cls(most=number)
        if number > 100:
            raise InvalidInput("on_error", f"{text} is more than all of them")
        return cls(percent=number)

    def broken_by(self, counts: Counts, *, at_end: bool) -> str | None:
        """Say why the import is to be aborted; return None while it may go on."""
        if self.most is not None and counts.rejected > self.most:
            return f"aborted: {records_were(counts.rejected)} rejected, more than {self.most} are not accepted"
        if self.percent is None or (not at_end and counts.read < ENOUGH_FOR_A_SHARE):
            return None
        if counts.rejected * 100 > self.percent * counts.read:
            share = 100 * counts.rejected / counts.read
            return f"aborted: {share:.1f} % of the records were rejected, more than {self.percent} % are not accepted"
        return None


@dataclass(frozen=True)
class RequestedFile:
    source: str
    size: int | None = None
    known_sha256: tuple[str, ...] = ()
    """The hashes of contents that were imported before from the same place. Such content is not imported again."""
    version: str | None = None
    """The version that is meant, as the storage names it: no other version is imported. None accepts any version."""
    format: Format | None = None
    """The format of a file that this project wrote itself: it is certain, whatever the first record looks like. If it
    is None, the format is recognised."""
    layout: Layout | None = None
    """How the records of such a file are read, but for where they begin."""
    name: str | None = None
    """What people call the file, if that is not its address."""

    @classmethod
    def of(cls, source: str) -> Self:
        """Make it from a source as a person names it. A local file gets its whole path and its size."""
        address = addresses.parse(source, "source")
        if address.scheme != "file":
            return cls(source)
        path = Path(address.path)
        return cls(str(path), path.stat().st_size if path.is_file() else None)

    def as_params(self) -> dict[str, Any]:
        told = {"source": self.source, "size": self.size, "known_sha256": list(self.known_sha256)}
        # Fields without a value are left out, so that a request from before there were such fields is still recognised
        # as the same request.
        rare = {"version": self.version, "format": self.format}
        return told | {name: value for name, value in rare.items() if value is not None}


@dataclass(frozen=True)
class ImportRequest:
    resource: str
    files: tuple[RequestedFile, ...]
    """What is to be imported, as it is submitted; empty in a request that was read from its job."""
    mode: Mode = Mode.INSERT
    format: FileFormat | None = None
    compression: Compression | None = None
    match_on: str | None = None
    on_error: str = "continue"
    replay_of: str | None = None
    """The key of the import whose rejects these files hold; None if they hold no rejects."""
    within: str | None = None
    """The folder of this machine in which the files were found. Others may put links there, so no link that leads out
    of it is followed."""
    reading: Reading = STANDARD
    """How the files are to be read, as far as it was told."""
    declaration: Resource | None = None
    """The declaration of a table that is not one of ours. It goes with the request, so that every process that works
    the job has the same."""

    @property
    def declared(self) -> Resource:
        return self.declaration or resources.find(self.resource)

    @property
    def verb(self) -> str:
        return "upsert" if self.mode is Mode.UPSERT else "import"

    @property
    def policy(self) -> ErrorPolicy:
        return ErrorPolicy.parse(self.on_error)

    @property
    def size(self) -> int | None:
        """The size of all files together; None if the size of any is not known."""
        sizes = [file.size for file in self.files if file.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    def check(self) -> Self:
        """Check everything that can be checked without reading the files."""
        _ = self.declared, self.policy
        if not self.files:
            raise InvalidInput("source", "no file is named")
        for file in self.files:
            addresses.parse(file.source, "source")
        if self.mode is Mode.UPSERT and not self.declared.keys:
            raise InvalidInput("mode", f"{self.resource} has no key that an upsert could match on: insert only")
        if self.match_on is not None and self.mode is not Mode.UPSERT:
            raise InvalidInput("match_on", "only an upsert matches records to rows")
        return self

    def as_params(self) -> dict[str, Any]:
        """Return what a job keeps of the request: all but the files, which are rows of their own."""
        return self.terms() | {"file_count": len(self.files), "size": self.size}

    def identity(self) -> dict[str, Any]:
        """Return what equal requests have in common, the files too. It holds addresses as they were given, so it is not
        to be shown."""
        return self.terms() | {"files": [file.as_params() for file in self.files]}

    def terms(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "resource": self.resource,
            "mode": self.mode,
            "format": self.format,
            "compression": self.compression,
            "match_on": self.match_on,
            "on_error": self.on_error,
            "replay_of": self.replay_of,
        }
        rare: dict[str, Any] = {"within": self.within, "reading": self.reading.as_params() or None}
        told |= {name: value for name, value in rare.items() if value is not None}
        return told if self.declared.built_in else told | {"declaration": written.as_dict(self.declared)}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> "ImportRequest":
        """Return the request of a job, without its files: these are read by `progress.files`. However often this is
        called, a process parses a request once."""
        return parsed(json.dumps(params, sort_keys=True))


@lru_cache(maxsize=64)
def parsed(text: str) -> ImportRequest:
    """Parse the JSON that a job keeps of a request."""
    params = json.loads(text)
    told, packed = params["format"], params["compression"]
    declaration = params.get("declaration")
    return ImportRequest(
        params["resource"],
        (),
        Mode(params["mode"]),
        None if told is None else FileFormat(told),
        None if packed is None else Compression(packed),
        params["match_on"],
        params["on_error"],
        params["replay_of"],
        params.get("within"),
        Reading.from_params(params.get("reading")),
        None if declaration is None else written.parsed(json.dumps(declaration)),
    )


@dataclass(frozen=True)
class Options:
    """The request in the words of a person or a configuration, which are checked when the request is made of them."""

    resource: str
    mode: str = "insert"
    format: str | None = None
    compression: str | None = None
    match_on: str | None = None
    on_error: str = "continue"
    validate_only: bool = False
    replay_of: str | None = None
    within: str | None = None
    reading: Reading = STANDARD
    declaration: Resource | None = None

    def as_json(self) -> dict[str, Any]:
        declaration = None if self.declaration is None else written.as_dict(self.declaration)
        return vars(self) | {"reading": self.reading.as_params(), "declaration": declaration}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        declared = value.get("declaration")
        declaration = None if declared is None else written.parsed(json.dumps(declared))
        return cls(**dict(value) | {"reading": Reading.from_params(value.get("reading")), "declaration": declaration})

    def request(self, files: tuple[RequestedFile, ...]) -> ImportRequest:
        if self.mode not in ("insert", "upsert"):
            raise InvalidInput("mode", f"{self.mode!r} is neither insert nor upsert")
        if self.validate_only and self.mode == "upsert":
            raise InvalidInput("validate_only", "reports what inserting would do; it does not go with upsert")
        if self.format is not None and self.format not in set(FileFormat):
            raise InvalidInput("format", f"{self.format!r} is none of {', '.join(FileFormat)}")
        if self.compression is not None and self.compression not in set(Compression):
            raise InvalidInput("compression", f"{self.compression!r} is none of {', '.join(Compression)}")
        return ImportRequest(
            self.resource,
            files,
            Mode.VALIDATE if self.validate_only else Mode(self.mode),
            None if self.format is None else FileFormat(self.format),
            None if self.compression is None else Compression(self.compression),
            self.match_on,
            self.on_error,
            self.replay_of,
            self.within,
            self.reading,
            self.declaration,
        ).check()
