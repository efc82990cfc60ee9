"""Conditions on the columns of a source, as people write them."""

from collections.abc import Iterable

from bulk_pipelines.errors import InvalidInput


def parsed(where: Iterable[str]) -> dict[str, str]:
    """Return the values that columns must have, by their names, of conditions such as `country=DE`."""
    found = {}
    for each in where:
        column, equals, value = each.partition("=")
        if not equals or not column:
            raise InvalidInput("where", f"{each!r} is not column=value")
        found[column] = value
    return found
