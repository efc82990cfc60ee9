"""Jobs that take several runs, on a whole installation with Dagster's own daemon: a budget that is spent, what a person
does in the UI (pause, resume, cancel, terminate, execute again), and dead letters."""

import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.imports import SLOW_TABLE, Outcome, user_file
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PATIENCE = 400.0
BUDGET = 15
ROWS = 200_000
"""Two lanes load some 100,000 of these rows in that time, however quick the machine is: the table is slow."""

# As the UI's buttons "Re-execute all" and "from failure", "Terminate" and "Launch run" ask for it.
AGAIN = """mutation($run: String!, $strategy: ReexecutionStrategy!) {
    launchRunReexecution(reexecutionParams: {parentRunId: $run, strategy: $strategy}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
TERMINATE = """mutation($run: String!) { terminateRun(runId: $run, terminatePolicy: SAFE_TERMINATE) { __typename } }"""
LAUNCH = """mutation($job: String!, $config: RunConfigData!) { launchRun(executionParams: {mode: "default",
    runConfigData: $config, selector: {jobName: $job, repositoryName: "__repository__",
    repositoryLocationName: "bulk_pipelines"}}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""

SPOILT = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'nobody may add it' USING ERRCODE = 'insufficient_privilege'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON users FOR EACH ROW
    WHEN (NEW.email = 'spoilt@example.org') EXECUTE FUNCTION refuse();
CREATE TRIGGER refuse BEFORE INSERT ON users_aside FOR EACH ROW
    WHEN (NEW.email = 'spoilt@example.org') EXECUTE FUNCTION refuse()
"""
MENDED = "DROP FUNCTION IF EXISTS refuse CASCADE"


@pytest.fixture(scope="module")
def place() -> Iterator[Installation]:
    with installation.running(BULK_RUN_SECONDS=str(BUDGET)) as running:
        with pool.single(running.server.url()) as connection:
            connection.execute(SLOW_TABLE)
        yield running


def submitted(place: Installation, *files: Path) -> str:
    engine = pool.connect(place.server.url())
    try:
        request = Options("users").request(tuple(RequestedFile.of(str(file)) for file in files))
        with transaction(engine) as connection:
            return submission.submit(connection, request, Sender("me", "api")).job.job_key
    finally:
        engine.dispose()


def runs(place: Installation, job_key: str) -> list[dict[str, Any]]:
    """Return the runs of the job, in their order."""
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
    again = executed_again(place, paused["id"])
    until(lambda: is_over(place, key), "the import is over", PATIENCE)
    assert runs(place, key)[1]["id"] == again
    assert_exact(place, key, expected)


def executed_again(place: Installation, run: str, strategy: str = "ALL_STEPS") -> str:
    answer = place.ask(AGAIN, run=run, strategy=strategy)["launchRunReexecution"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    return str(answer["run"]["runId"])


def launched(place: Installation, name: str, **config: object) -> None:
    """Launch one of the jobs that control others, and wait until its run has ended well."""
    answer = place.ask(LAUNCH, job=name, config={"ops": {f"{name}_job": {"config": config}}})["launchRun"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    query, run = "SELECT status FROM dagster.runs WHERE run_id = %s", answer["run"]["runId"]
    until(lambda: place.rows(query, run)[0][0] in ("SUCCESS", "FAILURE"), f"{name} has ended", PATIENCE)
    assert place.rows(query, run) == [("SUCCESS",)]


def emptied(place: Installation) -> None:
    with pool.single(place.server.url()) as connection:
        connection.execute("TRUNCATE users, articles, comments")


def count(place: Installation) -> int:
    return int(place.rows("SELECT count(*) FROM users")[0][0])


def test_to_terminate_a_run_pauses_its_job_within_ten_seconds(place: Installation, tmp_path: Path) -> None:
    emptied(place)
    expected = user_file(tmp_path / "users.csv", ROWS // 6, random.Random(8))
    key = submitted(place, tmp_path / "users.csv")
    until(lambda: count(place) > 0, "a run loads it", PATIENCE)
    run = runs(place, key)[-1]["id"]
    begun = time.monotonic()
    answer = place.ask(TERMINATE, run=run)["terminateRun"]
    assert answer == {"__typename": "TerminateRunSuccess"}
    until(lambda: state(place, key) == "PAUSED", "the job is paused", 10)
    held = "SELECT count(*) FROM job_item WHERE lease_until IS NOT NULL"
    until(lambda: place.rows(held) == [(0,)], "nobody works it any more", 10 - (time.monotonic() - begun))
    loaded = count(place)
    assert loaded < len(expected.rows)
    # It may have met the pause before it met its own interrupt.
    until(lambda: runs(place, key)[-1]["status"] in ("CANCELED", "SUCCESS"), "the run has ended", 60)
    until(lambda: f"job {key} is PAUSED" in (runs(place, key)[-1]["said"] or ""), "the list of runs shows it", 10)
    assert (count(place), state(place, key)) == (loaded, "PAUSED")
    executed_again(place, run)
    until(lambda: is_over(place, key), "the import is over", PATIENCE)
    assert_exact(place, key, expected)


def test_a_job_is_paused_resumed_and_cancelled_from_the_launchpad(place: Installation, tmp_path: Path) -> None:
    emptied(place)
    expected = user_file(tmp_path / "users.csv", ROWS // 3, random.Random(9))
    key = submitted(place, tmp_path / "users.csv")
    until(lambda: count(place) > 0, "a run loads it", PATIENCE)
    launched(place, "pause", job=key)
    assert state(place, key) == "PAUSED"
    until(lambda: runs(place, key)[-1]["status"] == "SUCCESS", "its run has ended", 60)
    launched(place, "resume", job=key)
    before = count(place)
    until(lambda: count(place) > before, "another run loads it", PATIENCE)
    launched(place, "cancel", job=key)
    assert state(place, key) == "CANCELLED"
    until(lambda: runs(place, key)[-1]["status"] == "SUCCESS", "its run has ended", 60)
    assert f"job {key} is CANCELLED" in runs(place, key)[-1]["said"]
    assert count(place) < len(expected.rows)


@pytest.mark.parametrize("how", ["ALL_STEPS", "FROM_FAILURE", "redrive"])
def test_a_run_that_ends_with_dead_letters_fails_once_and_is_redriven(
    place: Installation, tmp_path: Path, how: str
) -> None:
    emptied(place)
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("email,name,role\ngood@example.org,G,reader\nrejected,R,reader\n")
    bad.write_text("email,name,role\nspoilt@example.org,S,reader\n")
    with pool.single(place.server.url()) as connection:
        connection.execute(MENDED)
        connection.execute(SPOILT)
    key = submitted(place, good, bad)
    until(lambda: state(place, key) == "COMPLETED_WITH_ERRORS", "the job is over", PATIENCE)
    until(lambda: runs(place, key)[-1]["status"] == "FAILURE", "its run has failed", 60)
    (failed,) = runs(place, key)
    tags = "SELECT value FROM dagster.run_tags WHERE run_id = %s AND key = 'dagster/will_retry'"
    until(lambda: place.rows(tags, failed["id"]) == [("false",)], "Dagster says that it is not started again", 60)
    failure = (
        "SELECT event::jsonb #>> '{dagster_event,event_specific_data,user_failure_data,description}'"
        " FROM dagster.event_logs WHERE run_id = %s AND dagster_event_type = 'STEP_FAILURE'"
    )
    ((said,),) = place.rows(failure, failed["id"])
    assert said.startswith(f"job {key} ended with dead letters: 1 of 1 item; the first one is "), said
    assert "nobody may add it" in said
    with pool.single(place.server.url()) as connection:
        connection.execute(MENDED)
    if how == "redrive":
        launched(place, "redrive", job=key)
    else:
        executed_again(place, failed["id"], how)
    until(lambda: runs(place, key)[-1]["status"] == "SUCCESS", "another run has ended well", PATIENCE)
    assert len(runs(place, key)) == 2
    assert state(place, key) == "COMPLETED_WITH_ERRORS", "a record was rejected"
    assert count(place) == 2
