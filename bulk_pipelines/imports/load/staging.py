"""The tables that an import into a table of somebody else has for itself: where its records wait, and the ledger of
what it has loaded. Its first lane makes them, and they are dropped in the transaction that ends it."""

from psycopg import sql

from bulk_pipelines.database import namespaces, queries
from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import same_table, tables
from bulk_pipelines.resources.declaration import Resource


def prepare(connection: Connection, context: ImportContext) -> None:
    """Make the tables, unless another lane has made them."""
    resource = context.resource
    if resource.built_in or exists(connection, context.job_id):
        return
    with namespaces.theirs(connection):
        make(connection, context)


def make(connection: Connection, context: ImportContext) -> None:
    resource = context.resource
    connection.execute(
        sql.SQL(
            "CREATE TABLE {} AS SELECT {}, 0::bigint AS import_job, 0::bigint AS import_line FROM {} WITH NO DATA"
        ).format(tables.aside(context), tables.plain(resource, resource.column_names), tables.table(resource))
    )
    connection.execute(
        sql.SQL(
            "ALTER TABLE {} ADD COLUMN import_held text[] NOT NULL DEFAULT '{{}}',"
            " ADD COLUMN import_missing text[] NOT NULL DEFAULT '{{}}', ADD COLUMN import_refused text,"
            " ADD PRIMARY KEY (import_job, import_line)"
        ).format(tables.aside(context))
    )
    same_table.note(connection, context)
    if tables.keeps_ledger(context):
        connection.execute(
            sql.SQL("CREATE TABLE {} AS SELECT {}, 0::bigint AS import_line FROM {} WITH NO DATA").format(
                tables.ledger(context),
                tables.plain(resource, tables.ledger_columns(resource)),
                tables.table(resource),
            )
        )


def exists(connection: Connection, job_id: int) -> bool:
    """Tell whether the tables are there. Of several that ask at once, only one makes them."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"bulk_pipelines.staging.{job_id}"])
    name = namespaces.own(f"import_aside_{job_id}").as_string(connection)
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
    return bool(row and row[0])


def index_ledger(begin: Begin, context: ImportContext) -> None:
    """Make the ledger quick to search by keys, when everything is loaded and some records wait."""
    if not tables.keeps_ledger(context):
        return
    with begin() as connection:
        for number, key in enumerate(context.resource.keys):
            connection.execute(
                sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} ({})").format(
                    sql.Identifier(f"import_ledger_{context.job_id}_{number}"),
                    tables.ledger(context),
                    tables.listed(map(sql.Identifier, key.columns)),
                )
            )


def drop(connection: Connection, resource: Resource, job_id: int) -> None:
    """Drop the tables of an import that can never go on."""
    if not resource.built_in:
        drop_all(connection, job_id)


def drop_all(connection: Connection, job_id: int) -> None:
    for name in (f"import_aside_{job_id}", f"import_ledger_{job_id}"):
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(namespaces.own(name)))


def left_behind(connection: Connection) -> list[tuple[int, str | None]]:
    """Find imports that can never go on and still have such tables. Return the id of each, and its key unless the job
    is gone."""
    return connection.execute(queries.text("imports", "staged_jobs")).fetchall()
