"""Requests for imports, in whichever of their forms they come: a form, a plain body, or an address in JSON."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from email.message import EmailMessage
from typing import Any, Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bulk_pipelines.api.imports.forms import LONGEST_BETWEEN, Form
from bulk_pipelines.api.imports.receiving import Body
from bulk_pipelines.api.imports.tables import Declare
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.errors import Forbidden, InvalidInput
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.request import Options
from bulk_pipelines.imports.sent import digests
from bulk_pipelines.imports.sent.receiving import Asked
from bulk_pipelines.storage.compression import Compression

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
PLAIN = {
    "text/csv": None,
    "application/csv": None,
    "application/x-ndjson": None,
    "application/ndjson": None,
    "application/jsonl": None,
    "application/octet-stream": None,
    "text/plain": None,
    "application/gzip": Compression.GZIP,
    "application/x-gzip": Compression.GZIP,
    "application/zstd": Compression.ZSTD,
    "application/x-bzip2": Compression.BZIP2,
    "application/x-xz": Compression.XZ,
    "application/zip": None,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": None,
    "application/vnd.apache.parquet": None,
    "application/vnd.apache.arrow.file": None,
    "application/vnd.apache.arrow.stream": None,
    "text/tab-separated-values": None,
}
"""The media types of a file as the body, and the compression that each tells."""
CODINGS = {"": None, "identity": None, "gzip": Compression.GZIP, "x-gzip": Compression.GZIP, "zstd": Compression.ZSTD}
TRUE, FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off", ""}

Model = TypeVar("Model", bound=BaseModel)

MOST_FILES = 10_000
"""How many files one request may name."""


class FileAddress(BaseModel):
    """What can be told of a file that is fetched from an address."""

    model_config = ConfigDict(extra="forbid", strict=True)

    delimiter: str | None = Field(None, description=HELP["delimiter"])
    quote: str | None = Field(None, description=HELP["quote"])
    escape: str | None = Field(None, description=HELP["escape"])
    encoding: str | None = Field(None, description=HELP["encoding"])
    skip_lines: int = Field(0, description=HELP["skip_lines"])
    no_header: bool = Field(False, description=HELP["no_header"])
    fields: list[str] = Field([], description=HELP["fields"])
    nulls: list[str] = Field([], description=HELP["nulls"])
    decimal: str | None = Field(None, description=HELP["decimal"])
    dates: dict[str, str] = Field({}, description=HELP["dates"])
    sheet: str | None = Field(None, description=HELP["sheet"])
    member: str | None = Field(None, description=HELP["member"])
    map: dict[str, str] = Field({}, description=HELP["map"])
    ignore: list[str] = Field([], description=HELP["ignore"])
    ignore_extra: bool = Field(False, description=HELP["ignore_extra"])
    constants: dict[str, str] = Field({}, description=HELP["constants"])
    expressions: dict[str, str] = Field({}, description=HELP["expressions"])


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


def json_of(model: type[Model], body: bytes) -> Model:
    """Return the JSON of a body. The framework would read every body as JSON, and these endpoints also take files."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(".".join(map(str, first["loc"])) or "body", str(first["msg"])) from None


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


def reading_of(given: Mapping[str, Any], *, admin: bool) -> Reading:
    """Return how the file is to be read. Expressions of SQL are for admins, because PostgreSQL evaluates them with the
    rights of the workers."""
    reading = Reading.of({name: value for name, value in given.items() if name in HELP})
    if reading.expressions and not admin:
        raise Forbidden("expressions: only an admin may give expressions of SQL")
    return reading


def flag(name: str, text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise InvalidInput(name, f"{text!r} is neither true nor false")
    return text.lower() in TRUE


def priority_of(given: Mapping[str, str]) -> int:
    try:
        return int(given.get("priority") or 0)
    except ValueError:
        raise InvalidInput("priority", "is not a whole number") from None


@dataclass
class SentForm(Generic[Asked]):
    """A file in a form."""

    form: Form
    body: Body
    given: Mapping[str, str]
    expected: Mapping[str, str]
    read: Callable[[Mapping[str, str]], Asked]
    """Reads the options of the fields."""
    compression: Compression | None = None

    def pieces(self) -> Iterator[bytes]:
        yield from self.form.pieces(digests.verified(self.body.pieces(), self.expected, "Content-Digest"))
        self.options()

    def options(self) -> Asked:
        return self.read(self.fields())

    def fields(self) -> dict[str, str]:
        found = self.form.fields()
        for name in found.keys() & self.given.keys():
            if found[name] != self.given[name]:
                raise InvalidInput(name, "is given in the form and in the address, with different values")
        return {**self.given, **found}

    @property
    def name(self) -> str | None:
        return self.form.name

    @property
    def priority(self) -> int:
        return priority_of(self.fields())


@dataclass
class SentBody(Generic[Asked]):
    """A file that is the whole body."""

    body: Body
    given: Mapping[str, str]
    expected: Mapping[str, str]
    read: Callable[[Mapping[str, str]], Asked]
    name: str | None
    compression: Compression | None

    def pieces(self) -> Iterator[bytes]:
        return digests.verified(self.body.pieces(), self.expected, "Content-Digest")

    def options(self) -> Asked:
        return self.read(self.given)

    def fields(self) -> Mapping[str, str]:
        return self.given

    @property
    def priority(self) -> int:
        return priority_of(self.given)


def sent_of(
    request: Request, fields: Iterable[str], read: Callable[[Mapping[str, str]], Asked]
) -> SentForm[Asked] | SentBody[Asked]:
    """Return the file that the request sends. What can be refused before it has arrived is refused here."""
    kind = media_type(request)
    given = {name: request.query_params[name] for name in fields if name in request.query_params}
    expected = digests_of(request)
    if kind == "multipart/form-data":
        if coding(request) is not None:
            raise Refusal("unsupported-media-type", "Content-Encoding does not go with a form: compress the file in it")
        return SentForm(Form(request.headers["content-type"], fields), Body(request), given, expected, read)
    if kind not in PLAIN:
        raise Refusal("unsupported-media-type", "this request must send the file itself, not its address")
    read(given)
    compression = coding(request) or PLAIN[kind]
    return SentBody(Body(request), given, expected, read, file_name(request), compression)


def media_type(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data" and kind not in PLAIN and kind != "application/json":
        known = ", ".join(["multipart/form-data", "application/json (an address)", *PLAIN])
        raise Refusal("unsupported-media-type", f"Content-Type {kind[:100] or '(none)'} is none of {known}")
    return kind


def coding(request: Request) -> Compression | None:
    said = request.headers.get("content-encoding", "").strip().lower()
    if said not in CODINGS:
        raise Refusal("unsupported-media-type", f"Content-Encoding {said[:100]} is neither gzip nor zstd")
    return CODINGS[said]


def digests_of(request: Request) -> dict[str, str]:
    """Return the digests that the sender gives. `Content-Digest` and `Repr-Digest` speak of the same bytes here,
    because the file is sent whole."""
    content = (
        digests.parsed("Content-Digest", request.headers["content-digest"])
        if ("content-digest" in request.headers)
        else {}
    )
    whole = digests.parsed("Repr-Digest", request.headers["repr-digest"]) if "repr-digest" in request.headers else {}
    for name in content.keys() & whole.keys():
        if content[name] != whole[name]:
            raise InvalidInput("Repr-Digest", "differs from Content-Digest, though the file is sent whole")
    return content | whole


def file_name(request: Request) -> str | None:
    """Return what the sender calls the file. The time in which that is understood grows with the square of its length,
    so nothing is made of a name that is longer than any file's."""
    if not 0 < len(request.headers.get("content-disposition", "")) <= LONGEST_BETWEEN:
        return None
    message = EmailMessage()
    try:
        message["content-disposition"] = request.headers["content-disposition"]
        return message.get_filename()
    except (ValueError, IndexError, AttributeError, RecursionError):
        return None
