"""Jobs that take several runs, on a whole installation with Dagster's own daemon: a budget that is spent, and a pause
that ends with a re-execution in the UI."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.imports import SLOW_TABLE, Outcome, user_file
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PATIENCE = 400.0
BUDGET = 15
ROWS = 200_000
"""Of which two lanes load some 100,000 in that time, however quick the machine is: the table is slow."""

# As the UI's button "Re-execute all" asks for it.
AGAIN = """mutation($run: String!) { launchRunReexecution(reexecutionParams: {parentRunId: $run, strategy: ALL_STEPS}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""


@pytest.fixture(scope="module")
def place() -> Iterator[Installation]:
    with installation.running(BULK_RUN_SECONDS=str(BUDGET)) as running:
        with pool.single(running.server.url()) as connection:
            connection.execute(SLOW_TABLE)
        yield running


def submitted(place: Installation, file: Path) -> str:
    engine = pool.connect(place.server.url())
    try:
        request = Options("users").request((submission.local_file(str(file)),))
        with transaction(engine) as connection:
            return submission.submit(connection, request, Sender("me", "api")).job.job_key
    finally:
        engine.dispose()


def runs(place: Installation, job_key: str) -> list[dict[str, Any]]:
    """Of the job, in their order."""
    rows = place.rows(
        "SELECT run_id, status, start_time, end_time,"
        " (SELECT value FROM dagster.run_tags AS said WHERE said.run_id = runs.run_id AND key = 'bulk/ended')"
        " FROM dagster.runs JOIN dagster.run_tags AS tag USING (run_id)"
        " WHERE tag.key = 'dagster/partition' AND tag.value = %s ORDER BY runs.id",
        job_key,
    )
    return [dict(zip(("id", "status", "begun", "ended", "said"), row, strict=True)) for row in rows]


def state(place: Installation, job_key: str) -> str:
    return str(place.rows("SELECT status::text FROM job WHERE job_key = %s", job_key)[0][0])


def is_over(place: Installation, job_key: str) -> bool:
    found = state(place, job_key)
    assert found not in ("FAILED", "CANCELLED")
    return found.startswith("COMPLETED")


def assert_exact(place: Installation, job_key: str, expected: Outcome) -> None:
    query = "SELECT count(*), count(*) FILTER (WHERE role <> 'reader') FROM users"
    assert place.rows(query) == [(len(expected.rows), 0)]
    query = "SELECT count(*) FROM rejected_row JOIN job USING (job_id) WHERE job_key = %s"
    assert place.rows(query, job_key) == [(len(expected.rejects),)]


def test_a_job_goes_on_in_run_after_run_until_it_is_done(place: Installation, tmp_path: Path) -> None:
    expected = user_file(tmp_path / "users.csv", ROWS, random.Random(6))
    key = submitted(place, tmp_path / "users.csv")
    until(lambda: is_over(place, key), "the import is over", PATIENCE)
    until(lambda: runs(place, key)[-1]["status"] == "SUCCESS", "its last run has ended", 60)
    found = runs(place, key)
    assert len(found) >= 2
    assert {run["status"] for run in found} == {"SUCCESS"}
    assert all(f"has spent its {BUDGET} seconds" in run["said"] for run in found[:-1])
    assert found[-1]["said"] is None
    for earlier, later in pairwise(found):
        assert earlier["ended"] <= later["begun"] + 1, "not two at the same time"
    assert_exact(place, key, expected)
    assert place.rows("SELECT vain_launches FROM job WHERE job_key = %s", key) == [(0,)]


def test_a_paused_job_is_resumed_by_re_executing_its_run(place: Installation, tmp_path: Path) -> None:
    with pool.single(place.server.url()) as connection:
        connection.execute("TRUNCATE users, articles, comments")
    expected = user_file(tmp_path / "users.csv", ROWS // 2, random.Random(7))
    key = submitted(place, tmp_path / "users.csv")
    until(lambda: state(place, key) == "RUNNING", "a run works it", PATIENCE)
    assert "PAUSED" in place.bulk("pause", key).stdout
    until(lambda: runs(place, key)[-1]["status"] == "SUCCESS", "its run has ended", 120)
    (paused,) = runs(place, key)
    assert "PAUSED" in paused["said"]
    assert state(place, key) == "PAUSED"
    answer = place.ask(AGAIN, run=paused["id"])["launchRunReexecution"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    until(lambda: is_over(place, key), "the import is over", PATIENCE)
    assert runs(place, key)[1]["id"] == answer["run"]["runId"]
    assert_exact(place, key, expected)
