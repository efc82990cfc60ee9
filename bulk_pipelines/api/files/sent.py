"""Files that requests send, in a form or as the body."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from bulk_pipelines.api.files.forms import LONGEST_BETWEEN, Form
from bulk_pipelines.api.files.receiving import Body
from bulk_pipelines.api.problems import Refusal
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.sent import digests
from bulk_pipelines.imports.sent.receiving import Asked
from bulk_pipelines.storage.compression import Compression

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

Model = TypeVar("Model", bound=BaseModel)


def json_of(model: type[Model], body: bytes) -> Model:
    """Return the JSON of a body. The framework would read every body as JSON, and these endpoints also take files."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidInput(".".join(map(str, first["loc"])) or "body", str(first["msg"])) from None


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
