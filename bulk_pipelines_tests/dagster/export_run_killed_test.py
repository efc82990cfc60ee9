"""A whole installation: the run worker of an export is killed with -9 in its middle, and Dagster's retry publishes."""

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.up import processes
from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, names_in, watching
from bulk_pipelines_tests.scenes.exports import found, rows_so_far, slow_down, speed_up, submitted
from bulk_pipelines_tests.scenes.installation import SLOW, Installation, running
from bulk_pipelines_tests.scenes.waiting import until

ROWS = 20_000

MATERIALIZED = """query ($partitions: [String!]) { assetOrError(assetKey: {path: ["users_export"]}) { ... on Asset {
    assetMaterializations(partitions: $partitions) { partition runId } } } }"""


def run_workers(installation: Installation) -> list[psutil.Process]:
    """The processes that work a run: children of a code server. Steps of an export run in that same process."""
    found = []
    for server in processes.marked(processes.identity(installation.folder)):
        with suppress(psutil.Error):
            if "api" in server.cmdline():
                found += [each for each in server.children() if "spawn_main" in " ".join(each.cmdline())]
    return found


def materializations(installation: Installation, job: Job) -> list[dict[str, str]]:
    answer = installation.ask(MATERIALIZED, partitions=[job.job_key])
    made: list[dict[str, str]] = answer["assetOrError"]["assetMaterializations"]
    return made


@pytest.mark.long
def test_the_run_worker_is_killed_and_the_retry_publishes_one_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running() as installation:
        engine = pool.connect(installation.server.url(), application="test")
        insert_users(engine, ROWS)
        with watching(engine) as connection:
            slow_down(connection)
            job = submitted(engine, to=str(out))
            until(lambda: rows_so_far(connection, job) > 0, "rows are being written", SLOW)
            (worker,) = run_workers(installation)
            worker.kill()
            until(lambda: exporting(connection) == 0, "PostgreSQL has noticed", SLOW)
            assert all(name.endswith(".part") for name in names_in(out)), "nothing is published"
            assert names_in(out) != []
            speed_up(connection)
            until(lambda: found(engine, job).finished, "Dagster has tried again", 2 * SLOW)
        until(lambda: len(materializations(installation, job)) == 1, "it is shown as one materialization", SLOW)
        ended = found(engine, job)
        engine.dispose()
    assert ended.status is JobState.COMPLETED, ended.last_error
    assert ended.result is not None
    assert ended.result["rows"] == ROWS
    assert names_in(out) == [f"users-{job.job_key}.csv"]
    assert (out / f"users-{job.job_key}.csv").read_bytes().count(b"\n") == ROWS + 1
