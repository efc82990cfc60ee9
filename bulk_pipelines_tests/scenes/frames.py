"""A Dagster project of somebody else, whose assets get and return frames."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from sqlalchemy import Engine

from bulk_pipelines.components.frames import BulkIOManager
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.exports import submission as exporting
from bulk_pipelines.exports.kind import KINDS as EXPORTS
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines_tests.scenes import whole_imports

NAMES = ["Ann", "Böb, the \"2nd\"\nof his name", "Cyd"]  # fmt: skip


@dataclass
class Project:
    """A project of somebody else: a database, and an instance of Dagster."""

    engine: Engine
    url: str
    instance: dg.DagsterInstance
    folder: Path

    @property
    def database(self) -> Database:
        return Database(url=self.url)

    def materialize(self, *assets: Any, **options: Any) -> dg.ExecuteInProcessResult:
        manager = options.pop("manager", BulkIOManager(url=self.url))
        return dg.materialize(
            [*assets],
            instance=self.instance,
            resources={"bulk": manager, "database": self.database},
            raise_on_error=False,
            **options,
        )

    def imported(self, rows: list[dict[str, Any]], resource: str = "users", **options: Any) -> Job:
        path = self.folder / f"{uuid.uuid4()}.csv"
        pd.DataFrame(rows).to_csv(path, index=False)
        return whole_imports.imported(self.engine, resource, path, **options)

    def exported(self, **params: Any) -> Job:
        with transaction(self.engine) as connection:
            job = exporting.submit(connection, ExportRequest.parse(params), Sender("me", "cli")).job
            job = jobs.start(connection, job.job_key)
        return whole_imports.worked(self.engine, job, EXPORTS)

    def imported_author(self) -> tuple[str]:
        user = {"email": "ann@example.org", "name": "Ann", "role": "author", "active": "false"}
        self.imported([user | {"created_at": "2026-01-10T12:00:00.5+02:00"}])
        ((found,),) = self.query("SELECT id::text FROM users")
        return (found,)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with transaction(self.engine) as connection:
            return connection.execute(text.encode()).fetchall()


@pytest.fixture
def project(engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield Project(engine, database_url, instance, tmp_path)


def people(*names: str) -> list[dict[str, Any]]:
    return [{"email": f"{name[0].lower()}@example.org", "name": name, "role": "author"} for name in names]


def error_of(result: dg.ExecuteInProcessResult) -> str:
    return " ".join(str(each.step_failure_data.error) for each in result.all_events if each.is_step_failure)


def shown_by(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node(asset)
    return {key: value.value for key, value in event.metadata.items()}
