"""Named queries: one file of `sql/` for each concept, `-- name: claim_items`, a sentence of why, the query."""

from functools import cache
from typing import Any

import aiosql

from bulk_pipelines.settings import CHECKOUT


@cache
def load(file: str) -> Any:
    """All queries of `sql/<file>.sql`."""
    return aiosql.from_path(CHECKOUT / "sql" / f"{file}.sql", "psycopg", mandatory_parameters=False)


@cache
def text(file: str, name: str) -> str:
    """One query of `sql/<file>.sql`, its `:parameters` as psycopg names them."""
    sql: str = getattr(load(file), name).sql
    return sql
