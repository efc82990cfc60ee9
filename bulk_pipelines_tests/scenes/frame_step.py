"""A step that imports a frame, as a process that can be killed: python -m bulk_pipelines_tests.scenes.frame_step."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.components import frame_imports, frame_types
from bulk_pipelines.components.frame_imports import Origin
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.imports.request import Options
from bulk_pipelines.resources import find
from bulk_pipelines_tests.scenes.waiting import until

ROWS = 20_000
ORIGIN = Origin("found", "found in run 1", "run 1", lambda: False)


def table() -> pa.Table:
    numbers = range(ROWS)
    names = [f"N{number}" for number in numbers]
    return pa.table({"email": [f"{name}@example.org" for name in names], "name": names, "role": ["author"] * ROWS})


def begun_and_killed(engine: Engine, url: str, folder: Path) -> Job:
    """Let another process import the frame, and kill it when the first rows are in the table; return its job."""
    environment = os.environ | {"BULK_DATABASE_URL": url, "BULK_LOCK_FLOOR_MS": "2000"}

    def some() -> bool:
        with transaction(engine) as connection:
            return connection.execute("SELECT FROM users LIMIT 1").fetchone() is not None

    with (folder / "step.log").open("wb") as log:
        command = [sys.executable, "-m", "bulk_pipelines_tests.scenes.frame_step"]
        process = subprocess.Popen(command, env=environment, cwd=settings.CHECKOUT, stdout=log, stderr=log)
        try:
            until(some, "rows are in the table", 60.0)
        finally:
            process.kill()
            process.wait()
    with transaction(engine) as connection:
        found = connection.execute("SELECT job_key FROM job").fetchone()
        assert found is not None
        return jobs.find(connection, found[0])


def main() -> None:
    engine = pool.connect(settings.current().database_url, application="step")
    with frame_types.spooled(table()) as (file, _):
        frame_imports.imported(engine, file, Options("users", format="arrow"), find("users"), ORIGIN)


if __name__ == "__main__":
    main()
