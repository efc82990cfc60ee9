"""Imports over HTTP, and the work that Dagster would do on them."""

from collections.abc import Mapping
from typing import Any

import httpx
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.whole_imports import begun, worked

NONE: Mapping[str, str] = {}
HEADER = "id,email,name,role,active\n"


def line(number: int, email: str | None = None) -> str:
    key = f"{number:08x}-0000-4000-8000-{number:012x}"
    return f"{key},{email or f'user{number}@example.org'},Name {number},reader,true\n"


def users(*numbers: int) -> bytes:
    return (HEADER + "".join(line(number) for number in numbers)).encode()


def sent(client: httpx.Client, content: Any, headers: Mapping[str, str] = NONE, **params: str) -> httpx.Response:
    """Send a file of users as the body."""
    return client.post(
        "/v1/imports",
        params={"resource": "users", **params},
        content=content,
        headers={"Content-Type": "text/csv", **headers},
    )


def found(engine: Engine, job_key: str) -> Job:
    with transaction(engine) as connection:
        return jobs.find(connection, job_key)


def done(engine: Engine, job_key: str) -> Job:
    """Work an import to its end in this process."""
    return worked(engine, begun(engine, found(engine, job_key)))


def count(engine: Engine, query: str) -> int:
    with transaction(engine) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def landed(api: Api) -> list[str]:
    """Return what lies in the landing storage, unfinished files too."""
    folder = api.settings.home / "landed"
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def uploads_left(api: Api) -> int:
    return count(api.engine, "SELECT count(*) FROM upload WHERE state <> 'SUBMITTED'")


def nothing_is_left(api: Api) -> None:
    assert landed(api) == []
    assert uploads_left(api) == 0
    assert count(api.engine, "SELECT count(*) FROM job") == 0
