"""Named queries: one file of `sql/` for each concept, `-- name: claim_items`, a sentence of why, the query."""

from functools import cache

import aiosql
from aiosql.queries import Queries

from bulk_pipelines.database.migrations import SQL


@cache
def load(name: str) -> Queries:
    """The queries of `sql/<name>.sql`: `load("items").claim_items(connection, limit=10)`."""
    loaded: Queries = aiosql.from_path(SQL / f"{name}.sql", "psycopg", mandatory_parameters=False)
    return loaded
