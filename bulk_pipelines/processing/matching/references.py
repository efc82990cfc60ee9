"""The entries of a reference are made from the rows of a table in PostgreSQL, or of a file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces, pool
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.entries import Entry, Query
from bulk_pipelines.processing.matching.index import Index, build

FETCHED = 5000
SEPARATOR = ";"


@dataclass(frozen=True)
class Columns:
    """The columns of a row, by what they mean. The first column of names holds one name as it is; the others may hold
    several values, as an array or with semicolons between them."""

    names: Sequence[str]
    id: str = ""
    description: str = ""
    types: Sequence[str] = ()
    countries: Sequence[str] = ()
    websites: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.names:
            raise InvalidInput("names", "a column with names is needed")

    @property
    def all(self) -> list[str]:
        """Every column that is read, once."""
        single = [self.id, self.description]
        listed = [column for part in (self.names, self.types, self.countries, self.websites) for column in part]
        return list(dict.fromkeys(column for column in (*listed, *single) if column))

    def entry(self, row: Mapping[str, object]) -> Entry:
        return Entry(_text(row.get(self.id)), **self._said(row))

    def query(self, row: Mapping[str, object]) -> Query:
        return Query(**self._said(row))

    def _said(self, row: Mapping[str, object]) -> dict[str, Any]:
        first, *others = self.names
        written = row.get(first)
        names = _values(written) if isinstance(written, (list, tuple)) else [_text(written)]
        return {
            "names": tuple(name for name in (*names, *_each(row, others)) if name),
            "description": _text(row.get(self.description)),
            "types": tuple(_each(row, self.types)),
            "countries": tuple(_each(row, self.countries)),
            "websites": tuple(_each(row, self.websites)),
        }


def table_named(name: str) -> sql.Identifier:
    """Return a table as statements name it; it is written as `name` or `schema.name`."""
    return sql.Identifier(*namespaces.parts_of(name))


def load(engine: Engine, table: str, columns: Columns) -> Index:
    """Build the index of a table (`name` or `schema.name`), as one snapshot of it, without holding all its rows."""
    with pool.transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        return build(stream(connection, table_named(table), columns))


def stream(connection: Connection, relation: sql.Composable, columns: Columns) -> Iterator[Entry]:
    """Yield the entries of a table, or of whatever else may stand behind FROM, in the order of their ids."""
    if not columns.id:
        raise InvalidInput("id", "a column with the entries' ids is needed")
    query = sql.SQL("SELECT {columns} FROM {table} WHERE {id} IS NOT NULL ORDER BY {id}").format(
        columns=sql.SQL(", ").join(map(sql.Identifier, columns.all)),
        table=relation,
        id=sql.Identifier(columns.id),
    )
    with connection.cursor("reference", row_factory=dict_row) as cursor:
        cursor.itersize = FETCHED
        cursor.execute(query)
        for row in cursor:
            yield columns.entry(row)


def _each(row: Mapping[str, object], columns: Iterable[str]) -> list[str]:
    return [value for column in columns for value in _values(row.get(column))]


def _values(value: object) -> list[str]:
    parts = value if isinstance(value, (list, tuple)) else _text(value).split(SEPARATOR)
    return [text for part in parts if (text := _text(part))]


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()
