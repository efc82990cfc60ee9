"""The request for a job of processing: a recipe, and the rows to work."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from bulk_pipelines.database import namespaces
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.reading import STANDARD, Reading
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.storage import addresses
from bulk_pipelines.storage.compression import Compression


class Format(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    XLSX = "xlsx"
    PARQUET = "parquet"
    ARROW = "arrow"


def kind_name(recipe_type: str) -> str:
    """Return the name of the kind of job that recipes of a type are to the engine."""
    return f"process_{recipe_type}"


@dataclass(frozen=True)
class ProcessingRequest:
    """A recipe, and the rows to work: those of a file, or of a query of this database."""

    recipe: Recipe
    source: str = ""
    """The path or address of a file."""
    query: str = ""
    format: Format | None = None
    """The format that the file must have; None: it is recognised."""
    compression: Compression | None = None
    version: str = ""
    """The version of a dropped file. If the file has another one now, it is not read."""
    within: str | None = None
    """The folder of this machine that the file lies in. No link may lead out of it."""
    reading: Reading = STANDARD
    """How the file is to be read."""

    @classmethod
    def parse(
        cls,
        recipe: Recipe,
        *,
        source: str | None = None,
        query: str | None = None,
        table: str | None = None,
        format: str | None = None,  # noqa: A002 - the word that people use
        compression: str | None = None,
        reading: Reading = STANDARD,
    ) -> Self:
        """Make a request of what a person or a configuration says."""
        named = [name for name, given in (("source", source), ("query", query), ("table", table)) if given]
        if len(named) != 1:
            raise InvalidInput("source", "name one source: a file, a query or a table")
        said = {"format": format, "compression": compression} | reading.as_params()
        if not source and (told := [name for name, value in said.items() if value is not None]):
            raise InvalidInput(told[0], "is for files only")
        if format is not None and format not in set(Format):
            raise InvalidInput("format", f"{format!r} is none of {', '.join(Format)}")
        if compression is not None and compression not in set(Compression):
            raise InvalidInput("compression", f"{compression!r} is none of {', '.join(Compression)}")
        return cls(
            recipe,
            file_address(source) if source else "",
            f"SELECT * FROM {quoted(table)}" if table else query or "",
            None if format is None else Format(format),
            None if compression is None else Compression(compression),
            reading=reading,
        )

    def as_params(self) -> dict[str, Any]:
        """Return the request in the form that a job keeps. Whoever shows this to people must redact the source."""
        return {
            "recipe": {"name": self.recipe.name, "given": dict(self.recipe.given)},
            "source": self.source,
            "query": self.query,
            "format": self.format,
            "compression": self.compression,
            **({"version": self.version} if self.version else {}),
            **({"within": self.within} if self.within else {}),
            **({"reading": told} if (told := self.reading.as_params()) else {}),
        }

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> "ProcessingRequest":
        """Return the request of a job. However often this is called, a process parses a request once."""
        return parsed(json.dumps(params, sort_keys=True))


@lru_cache(maxsize=16)
def parsed(text: str) -> ProcessingRequest:
    """Parse the JSON that a job keeps of a request."""
    params = json.loads(text)
    recipe, told, packed = params["recipe"], params["format"], params["compression"]
    return ProcessingRequest(
        Recipe.parse(recipe["name"], recipe["given"]),
        params["source"],
        params["query"],
        None if told is None else Format(told),
        None if packed is None else Compression(packed),
        params.get("version", ""),
        params.get("within"),
        Reading.from_params(params.get("reading")),
    )


def file_address(source: str) -> str:
    """Return the source as a job keeps it. A local path becomes absolute, because another process reads it."""
    address = addresses.parse(source, "source")
    return str(Path(address.path)) if address.scheme == "file" else source


def quoted(table: str) -> str:
    """Return the name of a table, with or without its schema, as SQL."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in namespaces.parts_of(table))
