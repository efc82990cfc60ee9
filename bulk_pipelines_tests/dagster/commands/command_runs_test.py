"""A run that a command started is a run like any other: in the UI it stands among those of its job, on the timeline,
and can be executed again. Asked of a real web server, with Dagster's own daemon at work."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster._core.workspace.load import location_origins_from_yaml_paths

from bulk_pipelines import settings
from bulk_pipelines.up import home
from bulk_pipelines_tests.scenes import installation
from bulk_pipelines_tests.scenes.installation import Installation
from bulk_pipelines_tests.scenes.waiting import until

PATIENCE = 240.0

# As the page of a job and the timeline ask for runs.
RUNS = """query($filter: RunsFilter!) { runsOrError(filter: $filter, limit: 20) { ... on Runs { results {
    id pipelineName status repositoryOrigin { repositoryName repositoryLocationName }
    tags { key value } } } ... on PythonError { message } } }"""
OF_JOB = """query($job: String!) { pipelineOrError(params: {
    pipelineName: $job, repositoryName: "__repository__", repositoryLocationName: "bulk_pipelines" }) {
    ... on Pipeline { runs(limit: 20) { id } } ... on PythonError { message } } }"""
AGAIN = """mutation($run: String!, $how: ReexecutionStrategy!) {
    launchRunReexecution(reexecutionParams: {parentRunId: $run, strategy: $how}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
LAUNCH = """mutation($job: String!, $tags: [ExecutionTag!]!) { launchRun(executionParams: {
    selector: { jobName: $job, repositoryName: "__repository__", repositoryLocationName: "bulk_pipelines" },
    runConfigData: {}, mode: "default", executionMetadata: { tags: $tags } }) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
STATE = "query($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"
SAID = """query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
    __typename ... on ExecutionStepFailureEvent { failureMetadata { description } } } } } }"""
FORGET = """mutation($keys: [String!]!) { deleteDynamicPartitions(partitionsDefName: "distribution_jobs",
    partitionKeys: $keys, repositorySelector: {
    repositoryName: "__repository__", repositoryLocationName: "bulk_pipelines" }) { __typename } }"""


def test_the_code_location_is_the_one_that_the_web_server_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bulk_pipelines.up.with_dagster import location

    monkeypatch.setenv("BULK_HOME", str(tmp_path))
    made = home.place(settings.current())
    made.folder.mkdir(parents=True)
    home.write_workspace(made)
    assert [location().origin.code_location_origin] == location_origins_from_yaml_paths([str(made.workspace)])


@pytest.fixture(scope="module")
def place() -> Iterator[Installation]:
    with installation.running() as running:
        yield running


def runs(place: Installation, **wanted: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.ask(RUNS, filter=wanted)["runsOrError"]["results"]
    return found


def of(place: Installation, job_key: str) -> dict[str, Any]:
    """The newest run of a job."""
    return runs(place, tags=[{"key": "dagster/partition", "value": job_key}])[0]


def ended(place: Installation, run_id: str) -> str:
    def is_over() -> bool:
        return place.ask(STATE, run=run_id)["runOrError"]["status"] in ("SUCCESS", "FAILURE", "CANCELED")

    until(is_over, "the run is over", PATIENCE)
    return str(place.ask(STATE, run=run_id)["runOrError"]["status"])


def launched(answer: dict[str, Any], name: str) -> str:
    assert answer[name]["__typename"] == "LaunchRunSuccess", answer
    return str(answer[name]["run"]["runId"])


def assert_no_stranger(place: Installation, run: dict[str, Any], job: str) -> None:
    tags = {each["key"]: each["value"] for each in run["tags"]}
    assert tags["dagster/code_location"] == "bulk_pipelines"
    assert run["repositoryOrigin"] == {"repositoryName": "__repository__", "repositoryLocationName": "bulk_pipelines"}
    ours = {"key": ".dagster/repository", "value": "__repository__@bulk_pipelines"}
    assert run["id"] in [each["id"] for each in runs(place, pipelineName=job, tags=[ours])], "the page of its job"
    assert run["id"] in [each["id"] for each in place.ask(OF_JOB, job=job)["pipelineOrError"]["runs"]]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_runs_of_commands_stand_among_those_of_their_jobs(place: Installation, tmp_path: Path) -> None:
    source = tmp_path / "users.csv"
    source.write_text("email,name,role\nann@example.org,Ann,reader\n")
    for arguments, job in [
        (["import", str(source), "--resource", "users"], "import_users"),
        (["export", "users", "--to", str(tmp_path / "out")], "export_users"),
    ]:
        done = place.bulk(*arguments)
        assert done.returncode == 0, done.stderr
        run = of(place, done.stdout.split()[1])
        assert run["status"] == "SUCCESS"
        assert_no_stranger(place, run, job)
        again = launched(place.ask(AGAIN, run=run["id"], how="ALL_STEPS"), "launchRunReexecution")
        assert ended(place, again) == "SUCCESS"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["ALL_STEPS", "FROM_FAILURE"])
def test_a_failed_distribution_of_a_command_is_redriven_by_executing_its_run_again(
    place: Installation, tmp_path: Path, how: str
) -> None:
    """Even when retention has pruned its key meanwhile."""
    request = tmp_path / "request.json"
    index = f"NEW{how}"
    request.write_text(
        json.dumps({"inputs": [{"indexKey": index, "effectiveDate": "20260105", "asofindicator": "CLS"}]})
    )
    key = json.loads(place.bulk("distribute", "submit", str(request)).stdout)["jobId"]
    # The relay of this installation may come first with the first run, which the command then only watches; the run of
    # a job that has failed is the command's own.
    for _ in range(2):
        failed = place.bulk("distribute", "run", key)
        assert failed.returncode == 1, failed.stdout + failed.stderr
        run = of(place, key)
        assert ended(place, run["id"]) == "FAILURE"
    assert_no_stranger(place, run, "distribution")
    assert place.rows("INSERT INTO index_data VALUES (%s, '2026-01-05', 'CLS', 'c', 0.5, 1) RETURNING 1", index)
    place.ask(FORGET, keys=[key])
    again = launched(place.ask(AGAIN, run=run["id"], how=how), "launchRunReexecution")
    assert ended(place, again) == "SUCCESS"
    assert place.rows("SELECT status::text, attempts FROM job WHERE job_key = %s", key) == [("COMPLETED", 3)]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ([{"key": "dagster/partition", "value": "J20200101_000001"}], "no job has the key 'J20200101_000001'"),
        ([], "partition: is missing: launch the run with the key of a job that was submitted before"),
    ],
)
def test_a_launch_without_a_job_fails_at_once_and_says_why(
    place: Installation, tags: list[dict[str, str]], said: str
) -> None:
    run = launched(place.ask(LAUNCH, job="import_users", tags=tags), "launchRun")
    assert ended(place, run) == "FAILURE"
    events = place.ask(SAID, run=run)["logsForRun"]["events"]
    (failure,) = [each for each in events if each["__typename"] == "ExecutionStepFailureEvent"]
    assert failure["failureMetadata"]["description"] == said
    assert not [each for each in events if each["__typename"] == "ExecutionStepUpForRetryEvent"]
