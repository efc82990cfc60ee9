"""Declarations as they are written: in the TOML files that people edit and keep in git, and in the requests of jobs, so
that every process that works a job has the same declaration."""

import json
import keyword
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources.declaration import Resource

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The names of resources that have a file: they become the names of kinds of job and of assets."""
UNDECLARED = "any_table"
"""What jobs about tables that nobody has declared are called together: they have one kind."""
RESERVED = frozenset(
    {*keyword.kwlist, "bool", "dict", "float", "int", "str", "type", "input", "output", "context", "config", "conf"}
    | {"meta", "arg_dict", "input_arg_dict", "output_arg_dict"}
    | {"distributed_files", "entities", "images", "lookups", "matches", "notices", "reconciliations"}
    | {"file", "rows", UNDECLARED, f"{UNDECLARED}_export"}
)
"""Names that no resource can have: Dagster refuses words of Python and some of its own, and others belong to assets and
jobs of the program."""


def job_name(resource: str) -> str:
    """Return what kinds of job are called after: the resource, or the word for all that are not declared."""
    return resource if NAME.fullmatch(resource) else UNDECLARED


def parse(given: Mapping[str, Any], place: str) -> Resource:
    """Return the declaration that is written; `place` says in an error where that is."""
    from pydantic import ValidationError

    from bulk_pipelines.resources.written_form import Written

    try:
        return Written.model_validate(given).resource()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(each) for each in first["loc"])
        raise InvalidInput(place, f"{where}: {first['msg']}") from None
    except InvalidInput as error:
        raise InvalidInput(place, str(error)) from None


@lru_cache(maxsize=64)
def parsed(text: str) -> Resource:
    """Return the declaration in the request of a job."""
    return parse(json.loads(text), "declaration")


def as_dict(resource: Resource) -> dict[str, Any]:
    """Return the declaration of an adopted table as it is written. Usual values are left out."""
    from bulk_pipelines.resources.written_form import as_written

    return as_written(resource).model_dump(mode="json", exclude_defaults=True)
