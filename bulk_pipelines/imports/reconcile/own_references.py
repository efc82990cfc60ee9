"""References to rows of the same table, which may stand further down in the files, or in another batch.

A record may go in if the row that it names is in the table, or goes in together with it. So all records that wait count
as good at first, and those are taken out that name nothing, then those that name one of these, until no more are found.
What is left goes in by one statement: PostgreSQL looks at references when a statement ends.
"""

from psycopg import sql

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext
from bulk_pipelines.imports.load import tables
from bulk_pipelines.imports.reconcile import late_rejects
from bulk_pipelines.resources.declaration import Reference, Resource


def together(resource: Resource, most: int) -> sql.Composable:
    """Return how many records go in by one statement: all of them, if they may refer to each other."""
    return sql.SQL("ALL") if resource.own_references else sql.Literal(most)


def mark(connection: Connection, context: ImportContext) -> None:
    """Note with each record that waits which of these references lead nowhere."""
    own = context.resource.own_references
    if not own:
        return
    connection.execute(
        sql.SQL(
            "UPDATE {} SET import_missing = ARRAY(SELECT unnest(import_missing) EXCEPT SELECT unnest({names}::text[]))"
            " WHERE import_job = {} AND import_missing && {names}::text[]"
        ).format(tables.aside(context), context.job_id, names=[each.name for each in own]),
        prepare=False,
    )
    while sum(connection.execute(missing(context, each), prepare=False).rowcount for each in own):
        pass


def missing(context: ImportContext, reference: Reference) -> sql.Composed:
    """Write the statement that notes the reference with the records whose row is neither in the table nor one of those
    that may go in."""
    pairs = zip(reference.to, reference.columns, strict=True)
    named = [sql.SQL("c.{} = a.{}").format(sql.Identifier(to), sql.Identifier(name)) for to, name in pairs]
    return sql.SQL(
        "UPDATE {aside} a SET import_missing = array_append(a.import_missing, {name})"
        " WHERE a.import_job = {job} AND NOT {name} = ANY (a.import_missing) AND {nowhere}"
        " AND NOT EXISTS (SELECT FROM ({candidates}) c WHERE {named})"
    ).format(
        aside=tables.aside(context),
        name=reference.name,
        job=context.job_id,
        nowhere=tables.leads_nowhere(reference, "a"),
        candidates=candidates(context),
        named=tables.listed(named, " AND "),
    )


def candidates(context: ImportContext) -> sql.Composed:
    """Write the query for the records that own their keys, and that nothing stands against."""
    keys = late_rejects.decisive_keys(context)
    conditions: list[sql.Composable] = [
        sql.SQL("a.import_held = '{}' AND a.import_missing = '{}' AND a.import_refused IS NULL"),
        *(sql.SQL("a.{} = a.import_line").format(late_rejects.owner(number)) for number in range(len(keys))),
    ]
    return sql.SQL("SELECT a.* FROM ({}) a WHERE {}").format(
        late_rejects.with_owners(context, keys), tables.listed(conditions, " AND ")
    )
