"""Comparing a declaration with its table, to find where the two have come to differ."""

from dataclasses import dataclass

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.resources import reflection
from bulk_pipelines.resources.declaration import Column, Resource
from bulk_pipelines.resources.rules import OneOf


@dataclass(frozen=True)
class Difference:
    said: str
    grave: bool
    """Whether no import can do its work until the difference is mended."""


def differences(connection: Connection, declared: Resource) -> list[Difference]:
    """Compare the declaration of an adopted table with the table as it is now. Raise `InvalidInput` if it is gone."""
    actual = reflection.reflect(connection, reflection.quoted(connection, declared.place), declared.name)
    there = {column.name: column for column in actual.columns}
    table = ".".join(declared.place)
    found = [each for column in declared.columns for each in of_column(table, column, there.get(column.name))]
    known = set(declared.column_names)
    for column in actual.columns:
        if column.name not in known:
            needed = column.needed_in_files
            value = ", which needs a value" if needed else ""
            found.append(Difference(f"the table has a column {column.name} ({column.type}){value}", needed))
    keys = {key.columns for key in actual.keys}
    gone = [key.name for key in declared.keys if key.columns not in keys]
    found += [Difference(f"the table has no unique key on {name}", True) for name in gone]
    new = sorted(keys - {key.columns for key in declared.keys})
    found += [Difference(f"the table has another unique key, on {', '.join(columns)}", False) for columns in new]
    found += of_references(declared, actual)
    found += hidden(connection, declared)
    if declared.provenance != actual.provenance:
        has = "has" if actual.provenance else "lacks"
        found.append(Difference(f"the table {has} the columns of provenance", declared.provenance))
    if set(declared.referrers) != set(actual.referrers):
        found.append(Difference("other tables refer to it now than when it was adopted", False))
    return found


def of_column(table: str, declared: Column, actual: Column | None) -> list[Difference]:
    name = declared.name
    if actual is None:
        return [Difference(f"the table has no column {name}, or it is generated", True)]
    if (declared.type, declared.exact_type) != (actual.type, actual.exact_type):
        return [Difference(f"its column {name} is {actual.type}, but is declared as {declared.type}", True)]
    found = []
    if actual.required and not declared.required:
        found.append(Difference(f"its column {name} needs a value, and the declaration does not require it", False))
    if declared.has_default and not actual.has_default and actual.required:
        found.append(Difference(f"its column {name} has no default any more", True))
    if actual.takes_empty and not declared.takes_empty:
        told = (
            f"its column {name} takes an empty text as a value, but the declaration says that it is none, so NULL is"
            f" loaded: `bulk resources adopt {table} --again` makes the declaration anew"
        )
        found.append(Difference(told, False))
    labels = {value for rule in actual.rules if isinstance(rule, OneOf) for value in rule.values}
    if labels:
        allowed = {value for rule in declared.rules if isinstance(rule, OneOf) for value in rule.values}
        if allowed - labels:
            found.append(Difference(f"its column {name} does not know {', '.join(sorted(allowed - labels))}", True))
        if labels - allowed:
            found.append(Difference(f"its column {name} also knows {', '.join(sorted(labels - allowed))}", False))
    return found


def of_references(declared: Resource, actual: Resource) -> list[Difference]:
    one, other = ({(each.columns, each.table, each.to) for each in side.references} for side in (declared, actual))
    gone = [
        Difference(f"{','.join(columns)} no longer refers to {'.'.join(table)}", False)
        for columns, table, _ in one - other
    ]
    new = [
        Difference(f"{','.join(columns)} now refers to {'.'.join(table)}", False) for columns, table, _ in other - one
    ]
    return sorted(gone + new, key=lambda each: each.said)


def hidden(connection: Connection, declared: Resource) -> list[Difference]:
    """Return the references that this role must not look up: PostgreSQL does that as the owner, who sees all rows."""
    found = []
    for each in declared.references:
        values = {"table": reflection.quoted(connection, each.table)}
        if connection.execute(queries.text("reflection", "hides_rows"), values).fetchone() == (True,):
            told = f"row-level security of {'.'.join(each.table)}, which {each.name} refers to, holds for this role"
            found.append(Difference(told, True))
    return found


def refuse_grave(connection: Connection, declared: Resource) -> None:
    """Raise `InvalidInput`, which says what to do, if the table is not what its declaration says."""
    place = ".".join(declared.place)
    try:
        found = [each.said for each in differences(connection, declared) if each.grave]
    except InvalidInput as error:
        raise InvalidInput("table", f"{error.message}. Was {place} renamed or removed since it was declared?") from None
    if found:
        raise InvalidInput(
            "table",
            f"the table {place} is not what its declaration says: {'; '.join(found)}. Mend the table or the declaration"
            f" (`bulk resources check`, `bulk resources adopt --again`), and import again",
        )
