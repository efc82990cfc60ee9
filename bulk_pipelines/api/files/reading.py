"""How a file is to be read, as requests tell it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bulk_pipelines.errors import Forbidden
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.formats.reading import Reading


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


def reading_of(given: Mapping[str, Any], *, admin: bool) -> Reading:
    """Return how the file is to be read. Expressions of SQL are for admins, because PostgreSQL evaluates them with the
    rights of the workers."""
    reading = Reading.of({name: value for name, value in given.items() if name in HELP})
    if reading.expressions and not admin:
        raise Forbidden("expressions: only an admin may give expressions of SQL")
    return reading
