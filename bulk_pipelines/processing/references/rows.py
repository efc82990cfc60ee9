"""The entries of a reference, as the database has them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import holding, namespaces, queries
from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.entries import Entry
from bulk_pipelines.processing.matching.references import stream, table_named
from bulk_pipelines.processing.references import files
from bulk_pipelines.processing.references.declaration import Reference
from bulk_pipelines.processing.results import Candidate


@dataclass(frozen=True)
class Relation:
    """A reference as statements name it, and what tells that it has changed."""

    reference: Reference
    source: sql.Composable
    id: sql.Composable
    """The id of an entry, in the type that it is found by."""
    id_type: str

    def entries(self, connection: Connection) -> Iterator[Entry]:
        return stream(connection, self.source, self.reference.columns)

    def version(self, connection: Connection) -> str:
        """Return a text that changes with what the matcher reads of the reference. All rows are read for it, because
        nothing else tells of a change of any table or view."""
        if self.reference.file:
            return sql.as_string(self.source)
        statement = sql.SQL(
            "SELECT count(*), coalesce(sum(hashtextextended(row({columns})::text, 0)), 0)::text FROM {source}"
        ).format(
            columns=sql.SQL(", ").join(map(sql.Identifier, self.reference.columns.all)),
            source=self.source,
        )
        row = connection.execute(statement).fetchone()
        assert row is not None, "a count always has a row"
        return f"{row[0]} rows {row[1]}"

    def found(self, connection: Connection, ids: Collection[str], columns: Sequence[str]) -> dict[str, Candidate]:
        """Return the entries with these ids, with the values of some columns. If several have one id, it is one of
        them."""
        read = dict.fromkeys([*self.reference.columns.all, *columns])
        statement = sql.SQL("SELECT {columns} FROM {source} WHERE {id} = ANY (%s::{type}[])").format(
            columns=sql.SQL(", ").join(map(sql.Identifier, read)),
            source=self.source,
            id=self.id,
            type=sql.SQL(self.id_type),
        )
        try:
            with connection.transaction():
                rows = connection.execute(statement, [list(ids)]).fetchall()
        except psycopg.DataError:
            return {}  # one of them cannot be an id of this table
        found = {}
        for row in rows:
            values = dict(zip(read, row, strict=True))
            entry = self.reference.columns.entry(values)
            answer = {name: values[name] for name in columns}
            found[entry.id] = Candidate(entry.id, entry.names[0] if entry.names else "", None, answer)
        return found


@contextmanager
def opened(pool: Engine, reference: Reference) -> Iterator[tuple[Connection, Relation]]:
    """Open a reference for reading, as one snapshot. If it lacks a table or a column, `InvalidInput` says so."""
    try:
        with pools.borrowed(pool) as connection:
            if not reference.file:
                # No statement behind the transaction's beginning may take its snapshot before the table is locked.
                namespaces.turn_session_to_theirs(connection)
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                if reference.file:
                    yield connection, of_file(connection, reference)
                else:
                    lock(pool, connection, reference)
                    yield connection, of_table(connection, reference)
    except (psycopg.errors.SyntaxErrorOrAccessRuleViolation, psycopg.errors.InvalidName) as error:
        raise InvalidInput("reference", f"{reference.name}: {pools.reason(error)}") from None


def lock(pool: Engine, connection: Connection, reference: Reference) -> None:
    """Take the snapshot when nobody is changing the table, and hold the table from then on."""
    table = table_named(reference.table)
    connection.execute(holding.PATIENCE)
    try:
        with connection.transaction():
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table))
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        raise not_there(reference) from None
    except (psycopg.errors.WrongObjectType, psycopg.errors.InsufficientPrivilege):
        # It is a materialized view or a foreign table, or this role may read only some of its columns.
        nothing = f"SELECT FROM {sql.as_string(table)} LIMIT 0"
        with holding.held(pool.url.render_as_string(hide_password=False), nothing):
            connection.execute(nothing.encode())


def not_there(reference: Reference) -> InvalidInput:
    return InvalidInput("reference", f"{reference.name} has no column {reference.columns.id!r}, or is no table")


def of_table(connection: Connection, reference: Reference) -> Relation:
    source = table_named(reference.table)
    values = {"table": sql.as_string(source), "column": reference.columns.id}
    row = connection.execute(queries.text("references", "type_of_column"), values).fetchone()
    if row is None:
        raise not_there(reference)
    return Relation(reference, source, sql.Identifier(reference.columns.id), row[0])


def of_file(connection: Connection, reference: Reference) -> Relation:
    loaded = files.loaded(connection, reference)
    if loaded is None:
        raise InvalidInput("reference", f"{reference.name} is not loaded")
    number, columns = loaded
    cells = [sql.SQL("row -> {} AS {}").format(sql.Literal(each), sql.Identifier(each)) for each in columns]
    source = sql.SQL("(SELECT entry_id AS {id}, {cells} FROM reference_row WHERE reference_id = {number}) AS entry")
    return Relation(
        reference,
        source.format(id=sql.Identifier(files.ENTRY_ID), cells=sql.SQL(", ").join(cells), number=sql.Literal(number)),
        sql.Identifier(files.ENTRY_ID),
        "text",
    )


def check(pool: Engine, reference: Reference, columns: Sequence[str]) -> None:
    """Check that the reference has its columns and these. Raise `InvalidInput`, with what is missing."""
    with opened(pool, reference) as (connection, relation):
        read = dict.fromkeys([*reference.columns.all, *columns])
        connection.execute(
            sql.SQL("SELECT {} FROM {} LIMIT 0").format(sql.SQL(", ").join(map(sql.Identifier, read)), relation.source)
        )


def found(pool: Engine, reference: Reference, ids: Collection[str], columns: Sequence[str]) -> Mapping[str, Candidate]:
    """Return the entries of a reference with these ids."""
    with opened(pool, reference) as (connection, relation):
        return relation.found(connection, ids, columns)


def sample(pool: Engine, reference: Reference, entry_id: str) -> dict[str, Any] | None:
    """Return one entry with all its columns, as text."""
    with opened(pool, reference) as (connection, relation):
        statement = sql.SQL("SELECT to_jsonb(entry) FROM (SELECT * FROM {} WHERE {} = %s::{}) AS entry LIMIT 1").format(
            relation.source,
            relation.id,
            sql.SQL(relation.id_type),
        )
        try:
            row = connection.execute(statement, [entry_id]).fetchone()
        except psycopg.DataError:
            return None
        return None if row is None else {name: value for name, value in row[0].items() if name != files.ENTRY_ID}
