"""An installation whose imports are run by Dagster in this process, and files for them."""

from pathlib import Path
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines import definitions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.settings import CHECKOUT

SAMPLES = CHECKOUT / "docs" / "samples"


class Installation:
    """A Dagster instance and a database, and imports that run in this process."""

    def __init__(self, engine: Engine, url: str, instance: dg.DagsterInstance) -> None:
        self.engine = engine
        self.url = url
        self.instance = instance

    def submit(self, resource: str, *sources: Path, **options: Any) -> Job:
        files = tuple(RequestedFile.of(str(source)) for source in sources)
        with transaction(self.engine) as connection:
            request = Options(resource, **options).request(files)
            return submission.submit(connection, request, Sender("me", "ui")).job

    def run(self, job: Job, defs: dg.Definitions = definitions.defs) -> dg.ExecuteInProcessResult:
        self.instance.add_dynamic_partitions(f"{job.kind}_jobs", [job.job_key])
        return defs.resolve_job_def(job.kind).execute_in_process(
            instance=self.instance,
            partition_key=job.job_key,
            run_config={"resources": {"database": {"config": {"url": self.url}}}},
            raise_on_error=False,
        )

    def imported(self, resource: str, *sources: Path, **options: Any) -> Job:
        job = self.submit(resource, *sources, **options)
        self.run(job)
        return self.find(job)

    def find(self, job: Job) -> Job:
        with transaction(self.engine) as connection:
            return jobs.find(connection, job.job_key)

    def count(self, table: str) -> int:
        with transaction(self.engine) as connection:
            row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert row is not None
        return int(row[0])


def file_of(folder: Path, text: str | bytes, name: str = "users.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
