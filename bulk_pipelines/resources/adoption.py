"""Tables that somebody else has made: found by their names, and adopted by a declaration that people can edit."""

import re
from dataclasses import replace
from pathlib import Path

from psycopg import errors

from bulk_pipelines import resources
from bulk_pipelines.counted import counted
from bulk_pipelines.database import namespaces, samples
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import Conflict, InvalidInput
from bulk_pipelines.resources import library, reflection, written
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.settings import Settings


def of_table(connection: Connection, table: str) -> Resource:
    """Return the declaration of a table: that of a resource if the table has one, else what the catalogue knows."""
    reflected = reflection.reflect(connection, table)
    for resource in resources.known():
        if resource.place == reflected.place or (resource.built_in and is_sample(connection, resource, reflected)):
            return resource
    return reflected


def is_sample(connection: Connection, resource: Resource, reflected: Resource) -> bool:
    """Whether a table is the one of a resource that comes with the program."""
    if (resource.table, resource.column_names) != (reflected.table, reflected.column_names):
        return False
    with namespaces.theirs(connection):
        places = [resource.table, reflection.quoted(connection, reflected.place)]
        row = connection.execute("SELECT to_regclass(%s) = %s::regclass", places).fetchone()
        return reflected.provenance and row == (True,)


def chosen(connection: Connection, resource: str | None, table: str | None) -> Resource:
    """Return the declaration of what a request names: either a resource, or a table."""
    if (resource is None) == (table is None):
        raise InvalidInput("resource", "name either a resource or a table")
    if table is not None:
        return of_table(connection, table)
    found = resources.find(resource or "")
    refuse_unmade(connection, found)
    return found


def refuse_unmade(connection: Connection, resource: Resource) -> None:
    """Raise `InvalidInput` if the resource comes with the program, and nobody has made its table here."""
    if not resource.built_in:
        return
    with namespaces.theirs(connection):
        row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [resource.table]).fetchone()
    if row != (True,):
        raise InvalidInput(
            "resource",
            f"there is no table {resource.table} in this database: `bulk resources sample` makes those of "
            f"{', '.join(samples.RESOURCES)}; for a table of yours, name it as --table",
        )


def today(connection: Connection, declared: Resource) -> Resource:
    """Return the declaration of the same table as it is now: what its file says, or the catalogue if it has none."""
    if declared.built_in:
        return declared
    named = next((each for each in resources.known() if each.name == declared.name), None)
    return named or reflection.reflect(connection, reflection.quoted(connection, declared.place))


def adopt(
    connection: Connection, chosen: Settings, table: str, name: str | None, *, provenance: bool, again: bool
) -> tuple[Resource, Path]:
    """Declare a table in a file. With `provenance` the table gets the columns by which its rows say where they come
    from. What people wrote into a declaration that is made again stays where it still makes sense."""
    reflected = reflection.reflect(connection, table)
    known = {each.name: each for each in resources.known()}
    same = [each.name for each in known.values() if each.place == reflected.place] if again else []
    reflected = replace(reflected, name=name or (same[0] if len(same) == 1 else name_of(reflected)))
    library.check_name(reflected.name, "name")
    before = known.pop(reflected.name, None)
    if before is not None and before.built_in:
        raise Conflict(f"{reflected.name} is a resource already: give the other one a --name")
    if before is not None and before.place != reflected.place:
        raise Conflict(f"{before.name} is the declaration of {'.'.join(before.place)}: give the other one a --name")
    library.check_free(reflected.name, known, "name")
    path = before and next(path for path in library.paths(chosen) if library.read(path).name == before.name)
    if path and not again:
        raise Conflict(f"{path} is there already: edit it, or bring it up to date with --again")
    if provenance and not reflected.provenance:
        trace(connection, reflected.place)
        reflected = replace(reflection.reflect(connection, table), name=reflected.name)
    if path:
        return library.renew(path, reflected), path
    return reflected, library.write(chosen, reflected)


def trace(connection: Connection, place: tuple[str, ...]) -> None:
    table = ".".join(place)
    try:
        connection.execute("SELECT trace_imports(%s::regclass)", [reflection.quoted(connection, place)])
    except errors.InsufficientPrivilege:
        told = f"only the owner of {table} may add columns to it: adopt it --provenance as that role"
        raise InvalidInput("provenance", told) from None
    except (errors.ProgrammingError, errors.TooManyColumns) as error:
        told = f"{table} cannot have the columns that say where its rows come from: {error.diag.message_primary}"
        raise InvalidInput("provenance", told) from None


def name_of(table: Resource) -> str:
    """Return what a table is called as a resource if nobody says: the table's name, with its schema before it where the
    name alone cannot be that of a resource."""
    schema, name = (re.sub(r"[^a-z0-9_]+", "_", part.lower()).strip("_") for part in table.place)
    is_free = written.NAME.fullmatch(name) and name not in written.RESERVED
    return name if is_free else f"{schema}_{name}"


def as_text(resource: Resource) -> str:
    """Say what a declaration holds, in a few lines."""
    keys = ", ".join(f"({key.name})" for key in resource.keys) or "none: it can only be inserted into"
    needed = ", ".join(column.name for column in resource.columns if column.needed_in_files) or "none"
    lines = [f"{counted(len(resource.columns), 'column')}; a file must have: {needed}", f"keys: {keys}"]
    if resource.references:
        lines.append("refers to " + ", ".join(sorted({".".join(each.table) for each in resource.references})))
    lines.append(
        "its rows say which import they come from"
        if resource.provenance
        else "its rows do not say where they come from: no tracing, no undo (--provenance)"
    )
    return "\n".join(lines)
