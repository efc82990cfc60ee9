"""Named queries: one file of `sql/` for each concept, `-- name: claim_items`, a sentence of why, the query."""

from functools import cache

import aiosql
from aiosql.queries import Queries

from bulk_pipelines.database.migrations import SQL


@cache
def load(file: str) -> Queries:
    """All queries of `sql/<file>.sql`."""
    loaded: Queries = aiosql.from_path(SQL / f"{file}.sql", "psycopg", mandatory_parameters=False)
    return loaded


@cache
def text(file: str, name: str) -> str:
    """One query of `sql/<file>.sql`, its `:parameters` as psycopg names them."""
    sql: str = getattr(load(file), name).sql
    return sql
