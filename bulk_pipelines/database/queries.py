"""Named queries. `sql/` has a file for each concept; in it, each query has a line `-- name: claim_items`, a sentence
that says why, and the SQL."""

from functools import cache
from typing import Any

import aiosql

from bulk_pipelines.settings import shipped


@cache
def load(file: str) -> Any:
    """Load all queries of `sql/<file>.sql`."""
    return aiosql.from_path(shipped(f"sql/{file}.sql"), "psycopg", mandatory_parameters=False)


@cache
def text(file: str, name: str) -> str:
    """Return one query of `sql/<file>.sql`, with its `:parameters` as psycopg writes them."""
    sql: str = getattr(load(file), name).sql
    return sql
