"""What Dagster's side shares: the database as a resource, and the executor that runs steps."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import ready

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

    url: str = ""
    """Empty: the one that the settings name."""

    @property
    def engine(self) -> Engine:
        return process_pool(self.url)


@cache
def process_pool(url: str) -> Engine:
    """The pool of this process, made when it is first needed."""
    chosen = settings.current()
    if url:
        chosen = replace(chosen, database_url=url)
    return ready.opened(chosen, "bulk dagster")


@dg.configured(dg.multi_or_in_process_executor, config_schema={"in_process": dg.Field(bool, default_value=False)})
def step_executor(config: Mapping[str, Any]) -> dict[str, Any]:
    """Steps in processes forked from one that has the modules loaded; a small job needs only one process."""
    if config["in_process"]:
        return {"in_process": {}}
    return {"multiprocess": {"start_method": {"forkserver": {"preload_modules": PRELOADED}}}}
