"""Checking that the tables are what the declaration of their resource says, and that this role may do what an import
does with them."""

from psycopg import sql

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database import queries, rights
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources import adoption, comparing
from bulk_pipelines.resources.declaration import PROVENANCE, Resource

# The types, by their names in PostgreSQL's catalogue, that understand the binary form of each column kind.
TYPES = {
    ColumnKind.UUID: {"uuid"},
    ColumnKind.TEXT: {"text", "varchar", "bpchar", "citext"},
    ColumnKind.BOOLEAN: {"bool"},
    ColumnKind.TIMESTAMP: {"timestamptz"},
    ColumnKind.TEXT_LIST: {"_text"},
}

PER_TABLE = 1_600
OWN_COLUMNS = 5
"""How many columns the table has of its own in which records wait (`load/staging.py`)."""
MOST_COLUMNS = PER_TABLE - OWN_COLUMNS


def check(connection: Connection, resource: Resource, mode: Mode) -> None:
    """Raise `InvalidInput` if no row could be loaded, whatever is in the file, or if this role could not find out which
    rows the table refuses."""
    lacking = rights.missing_to_try(connection)
    if lacking:
        raise InvalidInput("BULK_DATABASE_URL", f"the role of imports may not {' and may not '.join(lacking)}")
    if not resource.built_in:
        refuse_names(resource)
        comparing.refuse_grave(connection, resource)
        refuse_rules(connection, resource, mode)
        return
    adoption.refuse_unmade(connection, resource)
    wanted = ["SELECT", "INSERT", *(["UPDATE"] if mode is Mode.UPSERT else [])]
    for table in (resource.table, f"{resource.table}_aside"):
        is_target = table == resource.table
        found = problems(connection, resource, table, wanted, is_target=is_target)
        if found:
            raise InvalidInput(
                "resource",
                f"the table {table} is not what the declaration of {resource.name} says: {'; '.join(found)}."
                " Mend the table or the declaration, and import again",
            )


def refuse_names(resource: Resource) -> None:
    """Refuse names with a per cent sign: the driver would take it for the place of a value."""
    wrong = [name for name in (*resource.place, *resource.column_names) if "%" in name]
    if wrong:
        raise InvalidInput(
            "table", f"{wrong[0]!r} has a per cent sign in its name: give it another name to import into it"
        )


def refuse_rules(connection: Connection, resource: Resource, mode: Mode) -> None:
    """Refuse a table with rules for writing: COPY passes them by, and MERGE refuses them."""
    place = sql.Identifier(*resource.place).as_string(connection)
    values = {"table": place, "events": ["2", "3", "4"] if mode is Mode.UPSERT else ["3"]}
    found = [name for (name,) in connection.execute(queries.text("imports", "rewriting_rules"), values)]
    if found:
        raise InvalidInput(
            "table",
            f"{place} has the rule {found[0]}, which an import would pass by: make a trigger of it, or disable it"
            f" (ALTER TABLE {place} DISABLE RULE)",
        )


def check_columns(connection: Connection, resource: Resource, mode: Mode) -> None:
    """Raise `InvalidInput` if the columns of an import into an adopted table are too many, or not this role's to
    write."""
    place = sql.Identifier(*resource.place).as_string(connection)
    if len(resource.columns) > MOST_COLUMNS:
        raise InvalidInput(
            "source",
            f"it gives {len(resource.columns):,} columns of {place}, and an import can give {MOST_COLUMNS:,}: records"
            f" wait in a table with {OWN_COLUMNS} more, and PostgreSQL allows {PER_TABLE:,}. Leave some out (--ignore),"
            " and upsert them by another import",
        )
    for right in ("INSERT", "UPDATE") if mode is Mode.UPSERT else ("INSERT",):
        values = {"table": place, "columns": [*resource.column_names, *resource.origin], "right": right}
        rows = connection.execute(queries.text("imports", "columns_without_right"), values).fetchall()
        if rows:
            names = ", ".join(name for (name,) in rows[:10])
            raise InvalidInput(
                "table", f"this role has no right to {right} {names} of {place}: GRANT SELECT, {right} ON {place} TO it"
            )


def problems(
    connection: Connection, resource: Resource, table: str, wanted: list[str], *, is_target: bool
) -> list[str]:
    rows = connection.execute(queries.text("imports", "table_columns"), {"table": table}).fetchall()
    if not rows:
        return ["there is no such table, or it has no column"]
    there = {name: each for name, *each in rows}
    found = []
    for column in resource.columns:
        if column.name not in there:
            found.append(f"it has no column {column.name}")
            continue
        shown, base, is_generated, _ = there[column.name]
        if base not in TYPES[column.kind]:
            found.append(f"its column {column.name} is {shown}, but is declared as {column.kind.postgres}")
        if is_generated:
            found.append(f"its column {column.name} is generated")
    found += [f"it has no column {name}" for name in PROVENANCE[: 3 if is_target else 2] if name not in there]
    if is_target:
        known = {*resource.column_names, *PROVENANCE}
        found += [
            f"its column {name} needs a value, and no such column is declared"
            for name, (_, _, _, needs_value) in there.items()
            if needs_value and name not in known
        ]
    held = connection.execute(queries.text("imports", "table_rights"), {"table": table, "rights": wanted}).fetchall()
    return found + [f"this role has no right to {right} there" for (right,) in held]
