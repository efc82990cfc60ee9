"""Exports worked by Dagster: the file, what a person sees of it, the check, and the launchpad's example."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines import definitions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.exports import work
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import submission as imports
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines_tests.scenes.export_files import insert, insert_users, names_in, stored
from bulk_pipelines_tests.scenes.exports import found, submitted
from bulk_pipelines_tests.scenes.listening import before, listening_everywhere
from bulk_pipelines_tests.scenes.today import one_of


class Installation:
    """A Dagster instance and a database, and exports that run in this process."""

    def __init__(self, engine: Engine, url: str, instance: dg.DagsterInstance, folder: Path) -> None:
        self.engine = engine
        self.url = url
        self.instance = instance
        self.folder = folder

    @property
    def config(self) -> dict[str, Any]:
        return {"resources": {"database": {"config": {"url": self.url}}}}

    def run(self, job: Job) -> dg.ExecuteInProcessResult:
        self.instance.add_dynamic_partitions(f"{job.kind}_jobs", [job.job_key])
        return definitions.defs.resolve_job_def(job.kind).execute_in_process(
            instance=self.instance, partition_key=job.job_key, run_config=self.config, raise_on_error=False
        )

    def submit(self, **params: Any) -> Job:
        return submitted(self.engine, to=str(self.folder), **params)


@pytest.fixture
def installation(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield Installation(engine, database_url, instance, tmp_path / "out")


def shown_by(result: dg.ExecuteInProcessResult) -> tuple[str | None, dict[str, Any]]:
    (event,) = result.get_asset_materialization_events()
    return event.partition, {key: value.value for key, value in event.materialization.metadata.items()}


@pytest.mark.parametrize("format_", ["csv", "parquet", "xlsx"])
def test_what_a_person_sees(installation: Installation, format_: str) -> None:
    insert_users(installation.engine, 40)
    job = installation.submit(format=format_, where=["role=admin"], fields="email,active,created_at", order="email")
    result = installation.run(job)
    assert result.success
    ended = found(installation.engine, job)
    assert ended.status is JobState.COMPLETED
    assert ended.result is not None
    partition, shown = shown_by(result)
    assert partition == job.job_key
    assert {name: shown[name] for name in ("rows", "bytes", "location", "sha256", "rows_per_second", "state")} == {
        "rows": 10,
        "bytes": ended.result["bytes"],
        "location": str(installation.folder / f"users-{job.job_key}.{format_}"),
        "sha256": ended.result["sha256"],
        "rows_per_second": ended.result["rows_per_second"],
        "state": "COMPLETED",
    }
    assert shown["dagster/partition_row_count"] == 10
    assert shown["console"] == f"http://127.0.0.1:8080/console/jobs/{job.job_key}"
    assert shown["request"]["where"] == ["role=admin"]
    (event,) = result.get_asset_materialization_events()
    table = event.materialization.metadata["preview"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [column.name for column in table.schema.columns] == ["email", "active", "created_at"]
    assert [record.data["email"] for record in table.records] == sorted(
        f"user-{number}@example.com" for number in range(4, 41, 4)
    )
    (check,) = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == ("row_count", True)
    assert check.metadata["rows_in_the_file"].value == check.metadata["rows_of_the_query"].value == 10


def test_lists_and_missing_values_are_shown(installation: Installation) -> None:
    owner = "00000000-0000-0000-0000-000000000001"
    insert(installation.engine, "users", [{"id": owner, "email": "a@b.cd", "name": "Ann", "role": "author"}])
    article = {"slug": "one", "title": "One", "body": "x" * 1_000, "author_id": owner, "tags": ["a", "b"]}
    insert(installation.engine, "articles", [article | {"id": owner, "status": "draft"}])
    result = installation.run(installation.submit(resource="articles", format="ndjson"))
    assert result.success
    (event,) = result.get_asset_materialization_events()
    table = event.materialization.metadata["preview"]
    assert isinstance(table, dg.TableMetadataValue)
    (record,) = table.records
    assert json.loads(str(record.data["tags"])) == ["a", "b"]
    assert record.data["published_at"] is None
    assert len(str(record.data["body"])) == work.PREVIEW_CHARACTERS


def test_an_empty_result_is_a_valid_empty_file(installation: Installation) -> None:
    job = installation.submit(resource="comments", format="json")
    result = installation.run(job)
    assert result.success
    assert json.loads((installation.folder / f"comments-{job.job_key}.json").read_bytes()) == []
    assert shown_by(result)[1]["rows"] == 0
    (check,) = result.get_asset_check_evaluations()
    assert check.passed


def test_the_check_counts_the_file_not_what_was_said_of_it(installation: Installation) -> None:
    insert_users(installation.engine, 5)
    job = installation.submit()

    def cut_short() -> None:
        """Cut the file short between its publication and the check."""
        path = installation.folder / f"users-{job.job_key}.csv"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))

    with listening_everywhere(before("SELECT result, error_message FROM job_item", cut_short)):
        result = installation.run(job)
    (check,) = result.get_asset_check_evaluations()
    assert not check.passed
    assert (check.metadata["rows_in_the_file"].value, check.metadata["rows_of_the_query"].value) == (2, 5)


def test_a_failed_export_fails_its_run_and_says_why_and_running_it_again_redrives(installation: Installation) -> None:
    insert_users(installation.engine, 5)
    installation.folder.write_text("not a folder")
    job = installation.submit()
    result = installation.run(job)
    assert not result.success
    assert found(installation.engine, job).status is JobState.FAILED
    (event,) = [each for each in result.all_events if each.event_type_value == "STEP_FAILURE"]
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    assert str(failure.description).count(str(installation.folder)) == 1, "the reason is told once"
    run = installation.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["dagster/max_retries"] == "0"
    assert not result.get_asset_materialization_events()

    installation.folder.unlink()
    assert installation.run(job).success
    assert found(installation.engine, job).status is JobState.COMPLETED
    assert names_in(installation.folder) == [f"users-{job.job_key}.csv"]


def test_a_cancelled_export_is_no_failure_and_leaves_nothing(installation: Installation) -> None:
    """Somebody cancels the export when its file is published and the outcome of its item is not written yet."""
    insert_users(installation.engine, 5)
    job = installation.submit()

    def cancel() -> None:
        assert names_in(installation.folder) == [f"users-{job.job_key}.csv"], "it is published"
        jobs.cancel(installation.engine, job.job_key)

    with listening_everywhere(before("settled AS (", cancel)):
        result = installation.run(job)
    assert result.success
    assert not result.get_asset_materialization_events()
    assert found(installation.engine, job).status is JobState.CANCELLED
    assert names_in(installation.folder) == []


def test_the_launchpad_s_example_works(installation: Installation, tmp_path: Path) -> None:
    insert_users(installation.engine, 3)
    job = definitions.defs.resolve_job_def("export_rows")
    assert job.run_config is not None
    result = job.execute_in_process(
        instance=installation.instance, run_config={**job.run_config, **installation.config}
    )
    assert result.success
    (output,) = [each for each in result.all_events if each.event_type_value == "STEP_OUTPUT"]
    key = str(output.step_output_data.metadata["job"].value)
    context = dg.build_sensor_context(
        instance=installation.instance,
        definitions=definitions.defs,
        resources={"database": Database(url=installation.url)},
    )
    offered = definitions.defs.resolve_sensor_def("relay")(context)
    assert isinstance(offered, dg.SensorResult)
    (request,) = offered.run_requests or []
    assert (request.job_name, request.partition_key) == ("export_users", key)
    (partitions,) = offered.dynamic_partitions_requests or []
    assert partitions.partitions_def_name == "export_users_jobs"
    installation.instance.add_dynamic_partitions("export_users_jobs", [key])
    worked = definitions.defs.resolve_job_def("export_users").execute_in_process(
        instance=installation.instance, partition_key=key, run_config=installation.config
    )
    assert worked.success
    assert shown_by(worked)[1]["rows"] == 2
    assert names_in(tmp_path / "home" / "exports") == [f"users-{key}.csv"]


def test_the_assets_stand_on_the_tables_they_read() -> None:
    graph = definitions.defs.resolve_asset_graph()
    for name in ("users", "articles", "comments"):
        node = graph.get(dg.AssetKey(f"{name}_export"))
        assert node.parent_keys == {dg.AssetKey(name)}
        assert node.group_name == "exports"
        assert node.description
        assert node.owners
        assert node.kinds


AWKWARD = [
    "",
    " ",
    '"',
    "a,b",
    "two\nlines",
    "\r\n",
    "\t",
    "null",
    "[]",
    "\\N",
    "\\.",
    "=1+1",
    "naïve ✓",
    "\ufeff",
    "\x01",
]


def fill_all_tables(engine: Engine) -> None:
    """Users, articles and comments with what formats stumble over, in every column that may hold it."""
    owner, moment = "00000000-0000-0000-0000-000000000001", datetime(2026, 1, 10, 12, 30, 0, 120_000, tzinfo=UTC)
    times = {"created_at": moment, "updated_at": moment + timedelta(microseconds=1)}
    for number, text in enumerate(AWKWARD, 1):
        key = f"00000000-0000-0000-0000-{number:012d}"
        user = {"id": key, "email": f"u{number}@b.cd", "name": f"n{text}", "role": "author", "active": number % 2 == 0}
        insert(engine, "users", [user | times])
        article = {"id": key, "slug": f"article-{number}", "title": f"t{text}", "body": f"{text}b", "author_id": owner}
        published = {"status": "published", "published_at": moment} if number % 2 else {"status": "draft"}
        insert(
            engine,
            "articles",
            [
                article
                | times
                | published
                | {"description": text if number % 3 else None, "tags": [text, "x"][: number % 3]}
            ],
        )
        comment = {"id": key, "article_id": key, "user_id": owner, "body": f"c{text}", "created_at": moment}
        insert(engine, "comments", [comment])


@pytest.mark.parametrize(("format_", "compression"), one_of([("csv", "gzip"), ("ndjson", "zstd"), ("json", "none")]))
def test_what_is_exported_imports_again_to_the_identical_tables(
    installation: Installation, format_: str, compression: str
) -> None:
    """A job exports each table, and another imports it: over the same rows, and after somebody changed them."""
    engine = installation.engine
    fill_all_tables(engine)
    requests = [ExportRequest(name) for name in ("users", "articles", "comments")]
    before = {request.resource: stored(engine, request) for request in requests}
    for spoil in (False, True):
        for request in requests:
            job = installation.submit(resource=request.resource, format=format_, compression=compression)
            assert installation.run(job).success
            exported = found(engine, job).result
            assert exported is not None
            if spoil:
                spoiled = {"users": "name", "articles": "title", "comments": "body"}[request.resource]
                with transaction(engine) as connection:
                    connection.execute(f"UPDATE {request.resource} SET {spoiled} = 'spoiled'".encode())
            files = (RequestedFile.of(exported["location"]),)
            with transaction(engine) as connection:
                again = Options(request.resource, mode="upsert").request(files)
                loading = imports.submit(connection, again, Sender("me", "ui")).job
            installation.run(loading)
            loaded = found(engine, loading)
            assert loaded.status is JobState.COMPLETED, (loaded.last_error, loaded.result)
            assert stored(engine, request) == before[request.resource]
