"""What all of Dagster's side uses: the database as a resource, the S3 server, and the executor that runs steps."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import dagster as dg
from dagster_aws.s3 import S3Resource
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import ready

PRELOADED = [
    "bulk_pipelines.definitions",
    # These Dagster itself imports late, in every step process.
    "dagster_postgres",
    "psycopg2.extras",
    "upath",
    "fsspec",
    "dotenv",
]
"""Modules that are imported once, by the process from which steps are forked: a step then starts in a fifth of a
second, not in four."""


class Database(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The database of jobs and items: `database.engine` is this process's pool."""

    url: str = ""
    """The address of the database. Empty: the one that the settings name."""

    @property
    def engine(self) -> Engine:
        return process_pool(self.url)


@cache
def s3_resource() -> S3Resource:
    """Return the S3 server of the settings. Its secrets are given by the names of their variables, because the UI shows
    how a resource is made."""
    chosen = settings.current()

    def named(variable: str, value: str) -> Any:
        return dg.EnvVar(variable) if value else None

    return S3Resource(
        endpoint_url=chosen.s3_endpoint or None,
        region_name=chosen.s3_region,
        aws_access_key_id=named("BULK_S3_ACCESS_KEY_ID", chosen.s3_access_key_id),
        aws_secret_access_key=named("BULK_S3_SECRET_ACCESS_KEY", chosen.s3_secret_access_key),
        aws_session_token=named("BULK_S3_SESSION_TOKEN", chosen.s3_session_token),
    )


@cache
def process_pool(url: str) -> Engine:
    """Return the pool of this process, which is made when it is first needed."""
    chosen = settings.current()
    if url:
        chosen = replace(chosen, database_url=url)
    return ready.opened(chosen, "bulk dagster")


@dg.configured(dg.multi_or_in_process_executor, config_schema={"in_process": dg.Field(bool, default_value=False)})
def step_executor(config: Mapping[str, Any]) -> dict[str, Any]:
    """Run steps in processes that are forked from one that has the modules loaded. A small job needs only one process
    for all its steps."""
    if config["in_process"]:
        return {"in_process": {}}
    return {"multiprocess": {"start_method": {"forkserver": {"preload_modules": PRELOADED}}}}
