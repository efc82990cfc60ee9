"""The import of drawn records as somebody would do it by hand: a plain INSERT or UPDATE for each record, in the order
of the file, each in a savepoint."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.resources.declaration import Key, Resource
from bulk_pipelines_tests.scenes.drawn_tables import BELOW, Drawn, Record

Row = tuple[Any, ...]
DUPLICATE = "duplicate of "
"""How a reason begins that is about a key which the declaration knows."""


@dataclass
class Outcome:
    rejected: dict[int, str] = field(default_factory=dict)
    """What stands against records, by their numbers."""
    superseded: set[int] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)


def tries(connection: Connection, statement: sql.Composed, values: list[Any]) -> int | str:
    """Run the statement. Return how many rows it wrote, or what the table said."""
    try:
        with connection.transaction():
            return int(connection.execute(statement, values, prepare=False).rowcount)
    except psycopg.Error as error:
        return str(error).splitlines()[0]


def place_of(table: Drawn) -> sql.SQL:
    return sql.SQL(table.place)


def listed(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def marks(count: int) -> sql.Composed:
    return sql.SQL(", ").join(sql.Placeholder() * count)


def insert(place: sql.Composable, record: Record, names: list[str]) -> tuple[sql.Composed, list[Any]]:
    """Return the statement that adds a record, and its values."""
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(place, listed(names), marks(len(names)))
    return statement, [record[name] for name in names]


def below(table: Drawn, name: str) -> sql.SQL:
    """Return the type of a column, without its domain."""
    return sql.SQL(BELOW.get(table.kinds[name], table.kinds[name]))


def same(table: Drawn, key: Key) -> sql.Composed:
    return sql.SQL(" AND ").join(
        sql.SQL("{} = {}::{}").format(sql.Identifier(name), sql.Placeholder(), below(table, name))
        for name in key.columns
    )


def values_of(key: Key, record: Record) -> list[Any] | None:
    found = [record[name] for name in key.columns]
    return None if None in found else found


class Oracle:
    """Works in a transaction of its caller, who takes it back. The first valid record with a key owns it (of an upsert:
    the last one), whether the table takes that record or not."""

    def __init__(self, connection: Connection, table: Drawn, declared: Resource) -> None:
        self.connection, self.table, self.declared = connection, table, declared
        self.found = Outcome()
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), below(table, name)) for name in table.kinds
        )
        connection.execute(sql.SQL("CREATE TEMP TABLE plain ({}) ON COMMIT DROP").format(columns))
        self.valid = [(line, each) for line, each in enumerate(table.records) if self.is_valid(line, each)]

    def is_valid(self, line: int, record: Record) -> bool:
        for name in self.table.given:
            if record[name] is None and self.declared.column(name).required:
                self.found.rejected[line] = f"{name} is missing"
                return False
        said = tries(self.connection, *insert(sql.SQL("pg_temp.plain"), record, self.table.given))
        if isinstance(said, str):
            self.found.rejected[line] = said
        return not isinstance(said, str)

    def owned(self, key: Key, name: str) -> sql.Identifier:
        """Make a table of the keys that rows hold before the import."""
        table = sql.Identifier("pg_temp", name)
        self.connection.execute(
            sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {}, -1 AS line FROM {}").format(
                sql.Identifier(name), self.plain(key), place_of(self.table)
            )
        )
        return table

    def plain(self, key: Key) -> sql.Composed:
        """Select the columns of a key without their domains."""
        return sql.SQL(", ").join(
            sql.SQL("{name}::{kind} AS {name}").format(name=sql.Identifier(name), kind=below(self.table, name))
            for name in key.columns
        )

    def own(self, owners: sql.Identifier, key: Key, line: int, record: Record) -> None:
        self.connection.execute(
            sql.SQL("INSERT INTO {} VALUES ({}, {})").format(owners, marks(len(key.columns)), line),
            values_of(key, record),
        )

    def holders(self, owners: sql.Identifier, key: Key, record: Record) -> list[int]:
        query = sql.SQL("SELECT line FROM {} WHERE {}").format(owners, same(self.table, key))
        return [line for (line,) in self.connection.execute(query, values_of(key, record), prepare=False)]

    def insert(self) -> Outcome:
        keys = [(key, self.owned(key, f"owners{number}")) for number, key in enumerate(self.declared.keys)]
        for line, record in self.valid:
            for key, owners in keys:
                if values_of(key, record) is None:
                    continue
                if held := self.holders(owners, key, record):
                    self.found.rejected[line] = f"{DUPLICATE}{key.name}, of {held}"
                self.own(owners, key, line, record)
            if line in self.found.rejected:
                continue
            said = tries(self.connection, *insert(place_of(self.table), record, self.table.given))
            if said != 1:
                self.found.rejected[line] = str(said)
        return self.over()

    def upsert(self, match_on: Key) -> Outcome:
        last = self.owned(match_on, "last")
        for line, record in reversed(self.valid):
            if self.takes(last, match_on, line, record):
                self.found.superseded.add(line)
        left = [(line, record) for line, record in self.valid if line not in self.found.superseded]
        for number, key in enumerate(self.declared.keys):
            if key != match_on:
                self.reject_owned(key, self.owned(key, f"owners{number}"), match_on, left)
        for line, record in left:
            if line not in self.found.rejected:
                said = self.merge(match_on, record)
                if said != 1:
                    self.found.rejected[line] = str(said)
        return self.over()

    def takes(self, owners: sql.Identifier, key: Key, line: int, record: Record) -> bool:
        """Tell whether another record owns the key. Otherwise this one owns it from now on."""
        if values_of(key, record) is None:
            return False
        is_owned = max(self.holders(owners, key, record), default=-1) >= 0
        if not is_owned:
            self.own(owners, key, line, record)
        return is_owned

    def reject_owned(self, key: Key, owners: sql.Identifier, match_on: Key, left: list[tuple[int, Record]]) -> None:
        for line, record in reversed(left):
            is_owned = self.takes(owners, key, line, record)
            if is_owned or (values_of(key, record) is not None and self.held_by_another(key, match_on, record)):
                self.found.rejected[line] = f"{DUPLICATE}{key.name}"

    def held_by_another(self, key: Key, match_on: Key, record: Record) -> bool:
        mine = values_of(match_on, record)
        condition = same(self.table, match_on) if mine is not None else sql.SQL("false")
        query = sql.SQL("SELECT FROM {} WHERE {} AND ({}) IS NOT TRUE").format(
            sql.SQL(self.table.place), same(self.table, key), condition
        )
        return bool(self.connection.execute(query, [*(values_of(key, record) or []), *(mine or [])]).fetchall())

    def merge(self, match_on: Key, record: Record) -> int | str:
        mine = values_of(match_on, record)
        if mine is None:
            return tries(self.connection, *insert(place_of(self.table), record, self.table.given))
        is_there = sql.SQL("SELECT FROM {} WHERE {}").format(place_of(self.table), same(self.table, match_on))
        if not self.connection.execute(is_there, mine, prepare=False).fetchall():
            return tries(self.connection, *insert(place_of(self.table), record, self.table.given))
        changed = [name for name in self.table.given if name not in match_on.columns] or [match_on.column]
        changes = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder()) for name in changed
        )
        statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(
            place_of(self.table), changes, same(self.table, match_on)
        )
        return tries(self.connection, statement, [*(record[name] for name in changed), *mine])

    def over(self) -> Outcome:
        self.found.rows = stored(self.connection, self.table)
        return self.found


def stored(connection: Connection, table: Drawn) -> list[Row]:
    """Return the rows, without what goes by how many were tried."""
    names = [
        name
        for (name,) in connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attidentity <> 'a' AND attname !~ '^import_' ORDER BY attnum",
            [table.place],
        )
        if name not in table.made - set(table.given)
    ]
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names)
    rows = connection.execute(sql.SQL("SELECT {} FROM {}").format(texts, place_of(table))).fetchall()
    return sorted(rows, key=repr)
