"""References to rows of the same table, which may stand further down in the files, or in another batch.

A record may go in if the row that it names is in the table, or goes in together with it. So all records that wait count
as good at first, and those are taken out that name nothing, then those that name one of these, until no more are found.
What is left goes in by one statement: PostgreSQL looks at references when a statement ends.
"""

from psycopg import sql

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.load import tables
from bulk_pipelines.imports.load.refusals import Attempt
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
    if context.mode is Mode.INSERT:  # rows with these keys may have come in meanwhile
        there = sql.SQL("true")
        conditions += [
            sql.SQL("{} IS NULL").format(tables.lookup(context.resource, key, "t", "a", there)) for key in keys
        ]
    return sql.SQL("SELECT a.* FROM ({}) a WHERE {}").format(
        late_rejects.with_owners(context, keys), tables.listed(conditions, " AND ")
    )


def put_off(resource: Resource, result: Attempt) -> set[int]:
    """Take the records out of the refused ones that only name rows of the same table which were not there, and return
    their lines. They are to be tried again, together, because rows have come in, or records been refused, since it was
    known what they name. If nothing of that happened, the table's word is the last one."""
    own = {each.constraint for each in resource.own_references}
    again = {line for line, each in result.refused.items() if each.constraint in own}
    if not result.written and len(again) == len(result.refused):
        return set()
    for line in again:
        del result.refused[line]
    return again


def means_change(context: ImportContext, constraint: str | None) -> bool:
    """Tell whether a refusal by this constraint means that others changed the table since the records were compared
    with it. A row of the same table that a record names may also have been refused just now."""
    own = {each.constraint for each in context.resource.own_references}
    return constraint not in own and tables.is_declared(context.resource, constraint)


FOLLOWERS = sql.Identifier("pg_temp", "followers")


def with_followers(
    connection: Connection, context: ImportContext, same_as_late: sql.Composable, late: list[int]
) -> list[int]:
    """Put the rows that came too late into another temporary table, with the rows of this import that name them, and
    the rows that name these. They go together and may come back. Return the lines of those that may go: not of a row
    that somebody else's row names, nor of one that such a row needs."""
    own = context.resource.own_references
    if not own or not late:
        return late
    columns = list(dict.fromkeys(name for each in own for name in (*each.columns, *each.to)))
    following = [
        sql.SQL("SELECT t.ctid AS place FROM {} t WHERE {}").format(
            tables.table(context.resource), tables.names(each, "t", "named")
        )
        for each in own
    ]
    connection.execute(
        sql.SQL(
            """
            CREATE TEMP TABLE followers ON COMMIT DROP AS
            WITH RECURSIVE found AS (
                SELECT t.ctid AS place FROM pg_temp.late x JOIN {table} t ON {same}
                UNION
                SELECT more.place FROM found JOIN {table} named ON named.ctid = found.place, LATERAL ({following}) more
            )
            SELECT place, CASE WHEN {free} THEN {line} END AS import_line, {columns}
            FROM found JOIN {table} t ON t.ctid = place
            """
        ).format(
            table=tables.table(context.resource),
            same=same_as_late,
            following=tables.listed(following, " UNION ALL "),
            free=free(context),
            line=own_line(context),
            columns=tables.listed(sql.Identifier("t", name) for name in columns),
        ),
        prepare=False,
    )
    stays = sql.SQL(
        "UPDATE pg_temp.followers f SET import_line = NULL WHERE import_line IS NOT NULL"
        " AND EXISTS (SELECT FROM pg_temp.followers s WHERE s.import_line IS NULL AND ({}))"
    ).format(tables.listed([tables.names(each, "s", "f") for each in own], " OR "))
    while connection.execute(stays, prepare=False).rowcount:
        pass
    rows = connection.execute("SELECT import_line FROM pg_temp.followers WHERE import_line IS NOT NULL ORDER BY 1")
    return [line for (line,) in rows]


def own_line(context: ImportContext) -> sql.Composed:
    """Write the expression for the line of a row `t`, whichever of its keys is whole: null unless this import has
    loaded the row and nobody has changed it since."""
    return sql.SQL("coalesce({})").format(
        tables.listed(tables.own_line(context, key, "t") for key in context.resource.keys)
    )


def free(context: ImportContext) -> sql.Composed:
    """Write the condition that a row `t` is still this import's to take, but for rows of its own table that name it."""
    ours = sql.SQL("({} IS NOT NULL)").format(own_line(context))
    return tables.listed([ours, *tables.unreferenced(context.resource, "t")], " AND ")
