"""What Dagster's side shares: the database as a resource, and the executor that runs steps."""

from collections.abc import Sequence
from functools import cache

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import database, settings
from bulk_pipelines.database import migrations, pool

PRELOADED = [
    "bulk_pipelines.definitions",
    # What Dagster itself imports late, in every step process.
    "dagster_postgres",
    "psycopg2.extras",
    "upath",
    "fsspec",
    "dotenv",
]
"""Imported once, by the process that steps are forked from: a step then starts in a fifth of a second, not in four."""


class Database(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The database of jobs and items: `database.engine` is this process's pool."""

    @property
    def engine(self) -> Engine:
        return process_pool()


@cache
def process_pool() -> Engine:
    """The pool of this process, made when it is first needed."""
    chosen = settings.current()
    url = database.url(chosen)
    if not chosen.database_url:
        migrations.apply(url)  # nobody else looks after the embedded server
    return pool.connect(url, application="bulk dagster", size=chosen.pool_size, timeout=chosen.connect_timeout)


def step_executor(preloaded: Sequence[str] = tuple(PRELOADED)) -> dg.ExecutorDefinition:
    """Steps in processes of their own, forked from one that has the modules loaded."""
    return dg.multiprocess_executor.configured(
        {"start_method": {"forkserver": {"preload_modules": list(preloaded)}}}, name="forked_steps"
    )
