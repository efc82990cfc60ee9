"""Inputs as people paste them: the request in JSON, or one input on a line."""

import csv
import io
import json
from typing import Any

from bulk_pipelines.counted import counted
from bulk_pipelines.distribution.request import FIELDS
from bulk_pipelines.errors import InvalidInput

DELIMITERS = ",;\t"


def inputs_of(text: str) -> list[Any]:
    """Return the inputs that a text names, not checked yet. Lines have three fields in the order of the request, or a
    header that says another order."""
    if text.lstrip().startswith(("{", "[")):
        return inputs_of_json(text)
    delimiter = next((each for each in DELIMITERS if each in text.partition("\n")[0]), ",")
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter, strict=True) if any(row)]
    except csv.Error as error:
        raise InvalidInput("inputs", f"are no lines of fields: {error}") from None
    names = list(FIELDS)
    if rows and {each.strip() for each in rows[0]} == set(FIELDS):
        names = [each.strip() for each in rows.pop(0)]
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise InvalidInput(
                f"inputs[{number}]", f"has {counted(len(row), 'field')}, and {', '.join(names)} are {len(names)}"
            )
    return [dict(zip(names, (each.strip() for each in row), strict=True)) for row in rows]


def inputs_of_json(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("inputs", f"are not JSON: {error}") from None
    given = found.get("inputs") if isinstance(found, dict) else found
    if not isinstance(given, list):
        raise InvalidInput("inputs", "is missing: the request is an object with a list of that name")
    return given
