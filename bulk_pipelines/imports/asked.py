"""An import as it is asked for: what is to be loaded, from where, and how much error it accepts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bulk_pipelines import resources
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.layout import Format
from bulk_pipelines.imports.terms import Mode
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage import addresses
from bulk_pipelines.storage.compression import Compression

LIMIT = re.compile(r"(\d+)(%?)")
ENOUGH_FOR_A_SHARE = 1_000
"""Records after which a share of them says something before the end."""


@dataclass(frozen=True)
class ErrorPolicy:
    """How many rejects an import accepts. Neither a number nor a share: any number."""

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
            raise InvalidInput("on_error", f"{text!r} is none of continue, abort, a number (100), or a share (5%)")
        number = int(found[1])
        if not found[2]:
            return cls(most=number)
        if number > 100:
            raise InvalidInput("on_error", f"{text} is more than all of them")
        return cls(percent=number)

    def broken_by(self, counts: Counts, *, at_end: bool) -> str | None:
        """Why the import is to be aborted; None while it may go on."""
        if self.most is not None and counts.rejected > self.most:
            return f"aborted: {counts.rejected} records were rejected, more than {self.most} are not accepted"
        if self.percent is None or (not at_end and counts.read < ENOUGH_FOR_A_SHARE):
            return None
        if counts.rejected * 100 > self.percent * counts.read:
            share = 100 * counts.rejected / counts.read
            return f"aborted: {share:.1f} % of the records were rejected, more than {self.percent} % are not accepted"
        return None


@dataclass(frozen=True)
class AskedFile:
    source: str
    size: int | None = None
    known_sha256: tuple[str, ...] = ()
    """Contents that were imported before from the same place: those are not imported again."""
    version: str | None = None
    """The one that is meant, as its storage tells it: another one is not imported. None: whatever lies there."""
    format: Format | None = None
    """Known for certain, whatever its first record looks like: the file was written here. None: it is recognised."""

    def as_params(self) -> dict[str, Any]:
        told = {"source": self.source, "size": self.size, "known_sha256": list(self.known_sha256)}
        # Left out where there is none, so that the same request as ever is recognised as the same.
        rare = {"version": self.version, "format": self.format}
        return told | {name: value for name, value in rare.items() if value is not None}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        kind = None if params.get("format") is None else Format(params["format"])
        return cls(params["source"], params["size"], tuple(params["known_sha256"]), params.get("version"), kind)


@dataclass(frozen=True)
class Asked:
    resource: str
    files: tuple[AskedFile, ...]
    mode: Mode = Mode.INSERT
    format: Format | None = None
    compression: Compression | None = None
    match_on: str | None = None
    on_error: str = "continue"
    replay_of: str | None = None
    """The job whose rejects these are."""
    within: str | None = None
    """The folder of this machine that the files were found in, where others may put links: none leads out of it."""

    @property
    def declared(self) -> Resource:
        return resources.find(self.resource)

    @property
    def policy(self) -> ErrorPolicy:
        return ErrorPolicy.parse(self.on_error)

    @property
    def size(self) -> int | None:
        """Of all files, where that is known."""
        sizes = [file.size for file in self.files if file.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    def check(self) -> Self:
        """Everything that can be known without the files."""
        _ = self.declared, self.policy
        if not self.files:
            raise InvalidInput("source", "no file is named")
        for file in self.files:
            addresses.parse(file.source, "source")
        if self.match_on is not None and self.mode is not Mode.UPSERT:
            raise InvalidInput("match_on", "only an upsert matches records to rows")
        return self

    def as_params(self) -> dict[str, Any]:
        """As a job keeps it. Whoever shows it redacts the addresses."""
        told = {
            "resource": self.resource,
            "files": [file.as_params() for file in self.files],
            "mode": self.mode,
            "format": self.format,
            "compression": self.compression,
            "match_on": self.match_on,
            "on_error": self.on_error,
            "replay_of": self.replay_of,
        }
        return told if self.within is None else told | {"within": self.within}

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        files = tuple(AskedFile.from_params(file) for file in params["files"])
        told, packed = params["format"], params["compression"]
        return cls(
            params["resource"],
            files,
            Mode(params["mode"]),
            None if told is None else Format(told),
            None if packed is None else Compression(packed),
            params["match_on"],
            params["on_error"],
            params["replay_of"],
            params.get("within"),
        )


@dataclass(frozen=True)
class Options:
    """The same as words, as a person or a configuration gives them."""

    resource: str
    mode: str = "insert"
    format: str | None = None
    compression: str | None = None
    match_on: str | None = None
    on_error: str = "continue"
    validate_only: bool = False
    replay_of: str | None = None
    within: str | None = None

    def asked(self, files: tuple[AskedFile, ...]) -> Asked:
        if self.mode not in ("insert", "upsert"):
            raise InvalidInput("mode", f"{self.mode!r} is neither insert nor upsert")
        if self.validate_only and self.mode == "upsert":
            raise InvalidInput("validate_only", "reports what inserting would do; it does not go with upsert")
        if self.format is not None and self.format not in set(Format):
            raise InvalidInput("format", f"{self.format!r} is none of {', '.join(Format)}")
        if self.compression is not None and self.compression not in set(Compression):
            raise InvalidInput("compression", f"{self.compression!r} is none of {', '.join(Compression)}")
        return Asked(
            self.resource,
            files,
            Mode.VALIDATE if self.validate_only else Mode(self.mode),
            None if self.format is None else Format(self.format),
            None if self.compression is None else Compression(self.compression),
            self.match_on,
            self.on_error,
            self.replay_of,
            self.within,
        ).check()
