"""Tables that nobody has declared: an administrator names one in place of a resource, and it is declared by its
catalogue."""

from collections.abc import Callable
from functools import cache

from bulk_pipelines.api.door import Door
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import Forbidden
from bulk_pipelines.resources import adoption
from bulk_pipelines.resources.declaration import Resource

Declare = Callable[[str], Resource]
"""Returns the declaration of a table."""


def declare_of(door: Door, *, admin: bool) -> Declare:
    """Return the function that declares the tables which one request names. It asks the catalogue once for each."""

    @cache
    def declare(table: str) -> Resource:
        if not admin:
            raise Forbidden(
                "only an administrator names a table: everybody may name a resource, such as an adopted one"
            )
        with transaction(door.pool) as connection:
            return adoption.chosen(connection, None, table)

    return declare
