"""Requests for imports, in whichever of their forms they come: a form, a plain body, or an address in JSON."""

from collections.abc import Mapping
from dataclasses import replace

from pydantic import Field

from bulk_pipelines.api.files.reading import FileAddress, reading_of
from bulk_pipelines.api.files.sent import json_of
from bulk_pipelines.api.imports.tables import Declare
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.imports.request import Options

FIELDS = {
    "resource": "What the records are: users, articles, …",
    "resource_type": "The same as `resource`.",
    "table": "Administrators only: in place of a resource, any table: orders, shop.orders.",
    "mode": "insert: only new rows; upsert: also changes.",
    "format": "csv, ndjson, json, xlsx, parquet or arrow; recognised when left out.",
    "compression": "none, gzip, zstd, bzip2 or xz; recognised when left out.",
    "match_on": "Upsert: the column that tells which row a record is about.",
    "on_error": "How many rejects are accepted: continue: any number; abort: none; 100 or 5%: so many.",
    "validate_only": "true: load nothing, report everything.",
    "priority": "From -100 to 100: a higher one is launched first.",
    **HELP,
}
"""The options of an import whose file is sent, each with what it says. They stand in the address or in the form."""
TRUE, FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off", ""}

MOST_FILES = 10_000
"""How many files one request may name."""


class Address(FileAddress):
    """An import of files that are fetched from an address."""

    resource: str | None = Field(None, description="What the records are.", examples=["users"])
    resource_type: str | None = Field(None, description="The same as `resource`.")
    table: str | None = Field(None, description=FIELDS["table"])
    url: str | list[str] = Field(
        description="Where the file is, or the files are: https://… for everybody.",
        examples=["https://example.org/users.csv"],
    )
    mode: str = Field("insert", description="insert: only new rows; upsert: also changes.")
    format: str | None = Field(None, description=FIELDS["format"])
    compression: str | None = Field(None, description=FIELDS["compression"])
    match_on: str | None = Field(None, description="Upsert: the column that tells which row a record is about.")
    on_error: str = Field(
        "continue", description="How many rejects are accepted: continue: any number; abort: none; 100 or 5%: so many."
    )
    validate_only: bool = Field(False, description="Load nothing, report everything.")
    priority: int = Field(0, ge=-100, le=100, description="A higher one is launched first.")

    @property
    def sources(self) -> list[str]:
        return [self.url] if isinstance(self.url, str) else self.url

    def options(self, within: str | None, declare: Declare, *, admin: bool) -> Options:
        told = self.model_dump()
        given = {name: str(value) for name, value in told.items() if value and name not in {"url", *HELP}}
        found = options_of(given | {"validate_only": str(self.validate_only)}, declare)
        return replace(found, within=within, reading=reading_of(told, admin=admin))


def address_of(body: bytes) -> Address:
    found = json_of(Address, body)
    if len(found.sources) > MOST_FILES:
        raise InvalidInput("url", f"names {len(found.sources):,} files, more than {MOST_FILES:,}: make several imports")
    return found


def options_of(given: Mapping[str, str], declare: Declare, *, admin: bool = False) -> Options:
    """Return the options that the fields give, in the words of a request."""
    declared = None if not (table := given.get("table")) else declare(table)
    resource, same = given.get("resource"), given.get("resource_type")
    if resource is not None and same is not None and resource != same:
        raise InvalidInput("resource_type", f"is {same!r}, and resource is {resource!r}: give one of them")
    if declared is not None and (resource or same):
        raise InvalidInput("table", f"is {table!r}, and a resource is named as well: give one of them")
    if declared is None and not (resource or same):
        raise InvalidInput("resource", "is missing: users, articles, …")
    return Options(
        resource=str(resource or same) if declared is None else declared.name,
        mode=given.get("mode") or "insert",
        format=given.get("format") or None,
        compression=given.get("compression") or None,
        match_on=given.get("match_on") or None,
        on_error=given.get("on_error") or "continue",
        validate_only=flag("validate_only", given.get("validate_only", "")),
        reading=reading_of(given, admin=admin),
        declaration=None if declared is None or declared.built_in else declared,
    )


def flag(name: str, text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise InvalidInput(name, f"{text!r} is neither true nor false")
    return text.lower() in TRUE
