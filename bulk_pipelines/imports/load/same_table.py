"""Whether the table of an import is still the one that it began with. Somebody may change it between two batches, or
give its name to another one, and PostgreSQL would round the next values or write the other half of a file elsewhere.

It is asked in the transaction that has written to the table, whose lock lets nobody change it any more.
"""

from psycopg import sql

from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import tables
from bulk_pipelines.imports.plan import agreement


def note(connection: Connection, context: ImportContext) -> None:
    """Note which table the import begins with. The note stands with the table in which its records wait, and names that
    one, too: in a database that was restored from a dump both are new."""
    aside = tables.aside(context)
    values = [each.as_string(connection) for each in (tables.table(context.resource), aside)]
    row = connection.execute("SELECT %s::regclass::oid || ' ' || %s::regclass::oid", values).fetchone()
    assert row is not None
    connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(aside, row[0]))


def check(connection: Connection, context: ImportContext) -> None:
    """Raise `InvalidInput`, which says what to do, if the table is another one by now, or has other types."""
    resource = context.resource
    if resource.built_in:
        return
    values = {
        "table": tables.quoted(resource, connection),
        "aside": tables.aside(context).as_string(connection),
        "names": list(resource.column_names),
        "types": [column.type for column in resource.columns],
    }
    with namespaces.theirs(connection):
        row = connection.execute(queries.text("imports", "target_now"), values).fetchone()
    is_another, has_other_types = row or (False, False)
    if is_another:
        raise InvalidInput(
            "table",
            f"another table has the name {'.'.join(resource.place)} since this import began, and what was loaded"
            " before is in the former one: give that one its name back and redrive, or import the file again",
        )
    if has_other_types:
        agreement.check(connection, resource, context.mode)
