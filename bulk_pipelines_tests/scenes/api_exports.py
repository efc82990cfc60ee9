"""Exports over HTTP, and the work that Dagster would do on them."""

from typing import Any

import httpx
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines_tests.scenes.exports import worked


def asked(client: httpx.Client, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
    """Submit an export."""
    return client.post("/v1/exports", json=body, headers=headers)


def completed(engine: Engine, job_key: str) -> Job:
    """Work an export to its end in this process."""
    with transaction(engine) as connection:
        job = jobs.start(connection, job_key)
    return worked(engine, job)
