"""Requests for exports: what an address or a body asks for, and in which format."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Header, Query
from pydantic import BaseModel, ConfigDict, Field

from bulk_pipelines.api.door import Door
from bulk_pipelines.api.files import sources
from bulk_pipelines.api.imports import tables
from bulk_pipelines.api.imports.tables import Declare
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.errors import Forbidden, InvalidInput
from bulk_pipelines.exports.publish import target
from bulk_pipelines.exports.request import COMPRESSED_INSIDE, TARGET, Compression, ExportRequest, Format
from bulk_pipelines.storage import addresses

MEDIA_TYPES = {
    Format.CSV: "text/csv",
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    Format.ARROW: "application/vnd.apache.arrow.stream",
}
PACKED = {Compression.GZIP: "application/gzip", Compression.ZSTD: "application/zstd"}
OTHER_NAMES = {"application/ndjson": Format.NDJSON, "application/jsonl": Format.NDJSON}
ACCEPTED = {name: format_ for format_, name in MEDIA_TYPES.items()} | OTHER_NAMES
WEIGHT = re.compile(r"0(\.[0-9]{0,9})?|1(\.0{0,9})?")
MOST_RANGES = 50
"""How many media ranges of an `Accept` are looked at."""

Resource = Annotated[str | None, Query(description="What is exported: users, articles, …", examples=["users"])]
Table = Annotated[
    str | None, Query(description="Administrators only: in place of a resource, any table: orders, shop.orders.")
]
Fields = Annotated[str | None, Query(description="The columns, in this order: id,email. All when left out.")]
Where = Annotated[list[str] | None, Query(description="Conditions, all of which must hold: role=admin.")]
Filters = Annotated[
    str | None, Query(description='The same as an object: {"role": "admin", "active": true}.', max_length=100_000)
]
Order = Annotated[str | None, Query(description="Columns to order by, - before one that goes down: -created_at,name.")]
FormatName = Annotated[
    str | None, Query(description="csv, ndjson, json, parquet, xlsx or arrow; else `Accept` decides.")
]
Packing = Annotated[str | None, Query(description="none, gzip or zstd.")]
Escape = Annotated[bool, Query(description="csv: an apostrophe before what a spreadsheet takes for a formula.")]
Accept = Annotated[str | None, Header(description="The media types that are liked.", max_length=10_000)]


class Export(BaseModel):
    """What is to be exported."""

    model_config = ConfigDict(extra="forbid", strict=True)

    resource: Annotated[str | None, Field(description="What is exported.", examples=["users"])] = None
    table: Annotated[str | None, Field(description="Administrators only: in place of a resource, any table.")] = None
    format: Annotated[str, Field(description="csv, ndjson, json, parquet, xlsx or arrow.")] = "csv"
    fields: Annotated[list[str] | str, Field(description="The columns, in this order; none: all of them.")] = []
    where: Annotated[
        list[str], Field(description="Conditions, all of which must hold.", examples=[["role=admin"]])
    ] = []
    filters: Annotated[
        dict[str, Any],
        Field(description="Fields and the values that they must have; a list is a choice, null is no value."),
    ] = {}
    order: Annotated[list[str] | str, Field(description="Columns to order by, - before one that goes down.")] = []
    compression: Annotated[str, Field(description="none, gzip or zstd.")] = "none"
    escape_formulas: Annotated[
        bool, Field(description="csv: an apostrophe before what a spreadsheet takes for a formula.")
    ] = False
    to: Annotated[str, Field(description="Administrators only: a folder or a file elsewhere, s3://bucket/folder.")] = ""
    priority: Annotated[int, Field(ge=-100, le=100, description="A higher one is launched first.")] = 0

    def request(self, door: Door, *, admin: bool) -> ExportRequest:
        """Return the request. Only administrators may name a target, because it is written with the server's own
        rights."""
        if self.to and not admin:
            raise Forbidden("only administrators name a target: leave `to` out, and download the file from here")
        declare = tables.declare_of(door, admin=admin)
        found = ExportRequest.parse(
            self.model_dump(exclude={"priority", "resource", "table"}) | named(self.resource, self.table, declare)
        )
        if found.to:
            address = addresses.parse(found.to, TARGET)
            if address.scheme == "file":
                sources.folder_of(door, [address])
            target.require_folder(found.to)
        return found


def named(resource: str | None, table: str | None, declare: Declare) -> dict[str, Any]:
    """Return what is exported, in the words of a request: a resource, or a table with its declaration."""
    if (resource is None) == (table is None):
        raise InvalidInput("resource", "name either a resource or a table")
    if table is None:
        return {"resource": resource}
    declared = declare(table)
    return {"resource": declared.name} | ({} if declared.built_in else {"declaration": declared})


def streamed(
    accept: str | None, format_: str | None, filters: str | None, given: Mapping[str, object]
) -> ExportRequest:
    """Return the request for an export that is streamed."""
    params = {name: value for name, value in given.items() if value is not None}
    chosen = format_ if format_ is not None else accepted(accept)
    return ExportRequest.parse(
        params | {"format": chosen} | ({} if filters is None else {"filters": object_of(filters)})
    )


def object_of(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("filters", 'is not JSON: it is an object such as {"role": "admin"}') from None


def accepted(accept: str | None) -> str:
    """Return the format that a client likes best; CSV if it does not matter to the client."""
    ranges = [weighted(each) for each in (accept or "*/*").split(",")[:MOST_RANGES]]
    # The more exact of two ranges speaks for a media type.
    weights = {
        name: max(
            ((exactness(each, name), weight) for each, weight in ranges if exactness(each, name)), default=(0, 0.0)
        )[1]
        for name in ACCEPTED
    }
    best = max(weights.values())
    if best <= 0:
        raise Refusal("not-acceptable", f"Accept names none of {', '.join(ACCEPTED)}")
    return ACCEPTED[next(name for name, weight in weights.items() if weight == best)]


def weighted(text: str) -> tuple[str, float]:
    name, *parameters = (each.strip().lower() for each in text.split(";"))
    weight = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    return name, float(weight) if WEIGHT.fullmatch(weight) else 0.0


def exactness(media_range: str, name: str) -> int:
    """Return how exactly a media range names a media type; 0 if it does not."""
    if media_range == name:
        return 3
    if media_range == f"{name.partition('/')[0]}/*":
        return 2
    return 1 if media_range == "*/*" else 0


def media_type(request: ExportRequest) -> str:
    """Return the media type of the file: what it is packed in, if it is."""
    if request.format in COMPRESSED_INSIDE:
        return MEDIA_TYPES[request.format]
    return PACKED.get(request.compression, MEDIA_TYPES[request.format])
