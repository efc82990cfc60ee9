"""Imports worked by Dagster: what is loaded, what a person sees, and what is said of files that are no good."""

import gzip
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines import definitions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, listing
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports import request, submission
from bulk_pipelines.imports.definitions import imports, launchables
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.orchestration.resources import Database, step_executor
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.listening import listening_everywhere
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import LoginServer, Place
from bulk_pipelines_tests.servers.web_server import WebServer, content

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


@pytest.fixture
def installation(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield Installation(engine, database_url, instance)


def file_of(folder: Path, text: str | bytes, name: str = "users.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_users_then_articles_then_comments(installation: Installation) -> None:
    """The samples: each holds something good and something bad."""
    users = installation.imported("users", SAMPLES / "users.csv")
    articles = installation.imported("articles", SAMPLES / "articles.ndjson")
    comments = installation.imported("comments", SAMPLES / "comments.json")
    assert {job.status for job in (users, articles, comments)} == {JobState.COMPLETED_WITH_ERRORS}
    assert [installation.count(table) for table in ("users", "articles", "comments")] == [3, 2, 1]


def test_what_a_person_sees(installation: Installation) -> None:
    job = installation.submit("users", SAMPLES / "users.csv")
    result = installation.run(job)
    assert result.success
    (event,) = result.get_asset_materialization_events()
    shown: dict[str, Any] = {key: value.value for key, value in event.materialization.metadata.items()}
    assert event.partition == job.job_key
    assert (shown["rows_read"], shown["rows_loaded"], shown["rows_rejected"], shown["batches"]) == (6, 3, 3, 1)
    assert shown["error_rate"] == 0.5
    assert shown["rows_per_second"] > 0
    table = event.materialization.metadata["first_rejects"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data["reasons"] for record in table.records] == [
        "invalid_email_format",
        "duplicate_email",
        "invalid_role",
    ]
    assert shown["how_the_batches_went"].startswith("one batch of 6 rows in ")
    checks = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert (checks["error_rate"].passed, checks["error_rate"].severity) == (False, dg.AssetCheckSeverity.WARN)
    assert checks["counts_add_up"].passed


def checks_alone(installation: Installation) -> dg.ExecuteInProcessResult:
    """Run the checks of users as the button of their page does: without the asset, and without a partition."""
    chosen = dg.AssetSelection.checks_for_assets(dg.AssetKey("users"))
    job = dg.define_asset_job("checks_of_users", selection=chosen)
    found = dg.Definitions.merge(definitions.defs, dg.Definitions(jobs=[job])).resolve_job_def("checks_of_users")
    return found.execute_in_process(
        instance=installation.instance,
        run_config={"resources": {"database": {"config": {"url": installation.url}}}},
        raise_on_error=False,
    )


def test_checks_by_themselves_look_at_the_newest_import(installation: Installation, tmp_path: Path) -> None:
    assert not checks_alone(installation).success, "there is nothing to check"
    installation.imported("users", SAMPLES / "users.csv")
    clean = "id,email,name,role,active\n0a0a0a0a-0000-4000-8000-000000000001,new@example.org,New,reader,true\n"
    installation.imported("users", file_of(tmp_path, clean))
    result = checks_alone(installation)
    assert result.success
    assert {each.check_name: each.passed for each in result.get_asset_check_evaluations()} == {
        "error_rate": True,
        "counts_add_up": True,
    }


LOOK_UP = re.compile(r"\s*SELECT\b.*\bFROM job\s+WHERE job_(key|id) = ", re.DOTALL)
"""A statement that looks one job up, whether it locks the job or not."""


def test_the_smallest_import_looks_its_job_up_five_times_and_parses_its_request_once(
    installation: Installation, tmp_path: Path
) -> None:
    """From its submission to the checks of its asset, in one process."""
    looked: list[str] = []

    def heard(statement: str) -> None:
        if LOOK_UP.match(statement):
            looked.append(statement)

    source = file_of(tmp_path, "email,name,role\na@example.org,A,reader\n")
    request.parsed.cache_clear()
    with listening_everywhere(heard):
        job = installation.submit("users", source)
        assert installation.run(job).success
    assert 1 <= len(looked) <= 5, looked
    assert request.parsed.cache_info().misses == 1
    assert installation.find(job).status is JobState.COMPLETED
    assert installation.count("users") == 1


def test_the_launchpad_job_submits_what_it_names(installation: Installation) -> None:
    job = definitions.defs.resolve_job_def("import_file")
    assert job.run_config is not None
    result = job.execute_in_process(
        instance=installation.instance,
        run_config={**job.run_config, "resources": {"database": {"config": {"url": installation.url}}}},
    )
    assert result.success
    with transaction(installation.engine) as connection:
        row = connection.execute("SELECT kind, origin, run_wanted FROM job").fetchone()
    assert row == ("import_users", "ui", True), "its default configuration works as it stands"


@pytest.mark.parametrize(("name", "fate"), [("users.csv", "COMPLETED_WITH_ERRORS"), ("missing.csv", "FAILED")])
def test_the_launchpad_job_may_wait_and_share_the_fate(installation: Installation, name: str, fate: str) -> None:
    config = {"source": str(SAMPLES / name), "resource": "users", "wait": True}
    launched = definitions.defs.resolve_job_def("import_file")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(
            launched.execute_in_process,
            instance=installation.instance,
            run_config={
                "ops": {"submit_import": {"config": config}},
                "resources": {"database": {"config": {"url": installation.url}}},
            },
            raise_on_error=False,
        )
        until(lambda: installation.count("job") == 1, "the job is submitted")
        with transaction(installation.engine) as connection:
            (job,) = listing.page(connection, listing.Wanted(), 1)
        worked = installation.run(job)
        result = waiting.result(timeout=60)
    assert result.success == worked.success == (fate != "FAILED")
    if result.success:
        (output,) = [each for each in result.all_events if each.event_type_value == "STEP_OUTPUT"]
        shown = {key: value.value for key, value in output.step_output_data.metadata.items()}
    else:
        (failed,) = [each for each in result.all_events if each.event_type_value == "STEP_FAILURE"]
        given = failed.step_failure_data.user_failure_data
        assert given is not None
        assert given.description is not None
        assert given.description.startswith(f"job {job.job_key} is FAILED: ")
        shown = {key: value.value for key, value in given.metadata.items()}
    assert shown["partition"] == f"/assets/users?partition={job.job_key}"
    assert (shown["run"], shown["state"]) == (worked.run_id, fate)


def test_an_upsert_changes_what_is_there(installation: Installation, tmp_path: Path) -> None:
    installation.imported("users", SAMPLES / "users.csv")
    changed = file_of(tmp_path, "email,name,role\nADA@example.org,Ada King,admin\nnew@example.org,New,reader\n")
    job = installation.imported("users", changed, mode="upsert", match_on="email")
    assert job.status is JobState.COMPLETED, job.last_error
    with transaction(installation.engine) as connection:
        names = connection.execute("SELECT name FROM users ORDER BY name").fetchall()
    assert [name for (name,) in names] == ["Ada King", "Grace Hopper", "Liskov, Barbara", "New"]


def test_validation_loads_nothing_and_reports_everything(installation: Installation) -> None:
    job = installation.imported("users", SAMPLES / "users.csv", validate_only=True)
    assert job.result is not None
    assert (job.result["valid"], job.result["rejected"], job.result["loaded"]) == (3, 3, 0)
    assert installation.count("users") == 0


def test_many_files_are_one_job_and_their_order_counts(installation: Installation, tmp_path: Path) -> None:
    sources = [
        file_of(tmp_path, f"email,name,role\nsame@b.org,From {n},reader\nonly{n}@b.org,N,reader\n", f"u{n}.csv")
        for n in range(30)
    ]
    # Another order of columns, another format, and one that is no good.
    sources.append(file_of(tmp_path, "role,name,email\nreader,X,x@example.org\n", "other.csv"))
    sources.append(file_of(tmp_path, '{"email": "y@example.org", "name": "Y", "role": "reader"}\n', "y.ndjson"))
    sources.append(file_of(tmp_path, "", "empty.csv"))
    job = installation.imported("users", *sources)
    assert job.status is JobState.COMPLETED_WITH_ERRORS
    assert job.result is not None
    assert (job.result["read"], job.result["loaded"], job.result["rejected"]) == (62, 33, 29)
    assert [file["note"] for file in job.result["files"] if file["note"]] == ["source: the file is empty"]
    with transaction(installation.engine) as connection:
        row = connection.execute("SELECT name FROM users WHERE email = 'same@b.org'").fetchone()
    assert row == ("From 0",)
    assert job.total_items == 1


def test_files_of_one_upsert_have_the_same_columns(installation: Installation, tmp_path: Path) -> None:
    sources = [
        file_of(tmp_path, "email,name,role\na@b.org,A,reader\n", "a.csv"),
        file_of(tmp_path, "name,role,email\nB,reader,b@b.org\n", "b.csv"),
        file_of(tmp_path, "email,name,role,active\nc@b.org,C,reader,false\n", "c.csv"),
    ]
    job = installation.imported("users", *sources, mode="upsert")
    assert job.status is JobState.COMPLETED_WITH_ERRORS
    assert job.result is not None
    assert [file["note"] is None for file in job.result["files"]] == [True, True, False]
    assert "upsert it by itself" in job.result["files"][2]["note"]
    assert installation.count("users") == 2


def test_content_that_was_imported_before_is_not_imported_again(installation: Installation) -> None:
    first = installation.imported("users", SAMPLES / "users.csv")
    assert first.result is not None
    known = first.result["files"][0]["sha256"]
    with transaction(installation.engine) as connection:
        request = Options("users").request((RequestedFile(str(SAMPLES / "users.csv"), None, (known,)),))
        job = submission.submit(connection, request, Sender("me", "sensor")).job
    installation.run(job)
    again = installation.find(job)
    assert again.result is not None
    assert again.result["read"] == 0
    assert again.result["files"][0]["duplicate"]


@pytest.mark.parametrize(
    ("on_error", "status", "message"),
    [
        ("continue", JobState.COMPLETED_WITH_ERRORS, None),
        ("3", JobState.COMPLETED_WITH_ERRORS, None),
        ("50%", JobState.COMPLETED_WITH_ERRORS, None),
        ("abort", JobState.FAILED, "more than 0 are not accepted"),
        ("2", JobState.FAILED, "more than 2 are not accepted"),
        ("49%", JobState.FAILED, "more than 49 % are not accepted"),
    ],
)
def test_how_much_error_is_accepted(
    installation: Installation, on_error: str, status: JobState, message: str | None
) -> None:
    job = installation.imported("users", SAMPLES / "users.csv", on_error=on_error)
    assert job.status is status
    assert (message or "") in (job.last_error or "")


@pytest.fixture
def by_hundreds(monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    """Imports whose batches have 100 rows."""
    monkeypatch.setenv("BULK_LOAD_MIN_ROWS", "100")
    monkeypatch.setenv("BULK_LOAD_MAX_ROWS", "100")
    resources = {"database": Database()}
    return dg.Definitions.merge(imports(launchables()), dg.Definitions(resources=resources, executor=step_executor))


def test_an_aborted_import_says_what_it_never_reached(
    installation: Installation, tmp_path: Path, by_hundreds: dg.Definitions
) -> None:
    rows = [f"u{n}@example.org,N,{'reader' if n != 150 else 'captain'}" for n in range(1_000)]
    source = file_of(tmp_path, "email,name,role\n" + "\n".join(rows) + "\n")
    submitted = installation.submit("users", source, on_error="abort")
    installation.run(submitted, by_hundreds)
    job = installation.find(submitted)
    assert job.status is JobState.FAILED
    assert job.result is not None
    assert (job.result["read"], job.result["loaded"], job.result["rejected"]) == (200, 199, 1)
    assert job.result["unprocessed"] == 800
    assert installation.count("users") == 199


def test_a_cancelled_import_keeps_what_was_loaded_and_counts_the_rest(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hundreds: dg.Definitions
) -> None:
    rows = [f"u{n}@example.org,N,reader" for n in range(1_000)]
    source = file_of(tmp_path, "email,name,role\n" + "\n".join(rows) + "\n")
    monkeypatch.setattr("bulk_pipelines.engine.worker.standing.LOOK_SECONDS", 0.0)
    job = installation.submit("users", source)

    def heard(statement: str) -> None:
        """Cancel the import between two batches, when its worker looks whether it is to go on."""
        if statement.lstrip().startswith("SELECT status, planned_at") and installation.count("users") == 300:
            jobs.cancel(installation.engine, job.job_key)

    with listening_everywhere(heard):
        assert installation.run(job, by_hundreds).success, "a cancelled run is no failure"
    ended = installation.find(job)
    assert ended.status is JobState.CANCELLED
    assert ended.result is not None
    assert (ended.result["loaded"], ended.result["unprocessed"]) == (300, 700)


GOOD_ROW = "a@example.org,A,reader\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "the file is empty"),
        ("email,name,role\n", {}, "a header and no records"),
        ("email,name\na@example.org,A\n", {}, "role"),
        ("email,name,role,shoe\na@example.org,A,reader,42\n", {}, "shoe"),
        ("email,name,role,name\na@example.org,A,reader,B\n", {}, "name"),
        (b"email,name,role\n" + b"\xff\xfe,A,reader\n", {}, "nothing could be loaded"),
        ("email,name,role\n" + GOOD_ROW, {"format": "ndjson"}, "it looks like csv"),
        ("email,name,role\n" + GOOD_ROW, {"compression": "gzip"}, "gzip"),
        ("email,name,role\nx,y,z\nx,y,z\n", {}, "nothing could be loaded"),
        ("email,name,role\n" + GOOD_ROW, {"mode": "upsert", "match_on": "id"}, "no column id"),
        ("[1, 2", {}, "never closed"),
        ("PK\x03\x04 and so on", {}, "ZIP"),
    ],
)
def test_a_file_that_is_no_good_fails_with_its_reason_and_loads_nothing(
    installation: Installation, tmp_path: Path, text: str | bytes, options: dict[str, Any], message: str
) -> None:
    job = installation.submit("users", file_of(tmp_path, text), **options)
    result = installation.run(job)
    assert not result.success
    ended = installation.find(job)
    assert ended.status is JobState.FAILED
    assert message.lower() in (ended.last_error or "").lower()
    assert installation.count("users") == 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/nowhere/users.csv", "/nowhere/users.csv does not exist"),
        ("http://127.0.0.1:9/users.csv", "not a public web server"),
        ("http://someone:hunter2@127.0.0.1:9/users.csv", "not a public web server"),
    ],
)
def test_a_source_that_cannot_be_had_is_said_without_secrets(
    installation: Installation, source: str, message: str
) -> None:
    with transaction(installation.engine) as connection:
        request = Options("users").request((RequestedFile(source),))
        job = submission.submit(connection, request, Sender("me", "ui")).job
    result = installation.run(job)
    assert not result.success
    error = installation.find(job).last_error or ""
    assert message in error
    assert "hunter2" not in error


def wanted(installation: Installation, source: str) -> Job:
    with transaction(installation.engine) as connection:
        request = Options("users").request((RequestedFile(source),))
        job = submission.submit(connection, request, Sender("me", "ui")).job
    installation.run(job)
    return installation.find(job)


def test_from_s3_gzipped(installation: Installation, s3_bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    given = s3_bucket.access.s3
    monkeypatch.setenv("BULK_S3_ENDPOINT", given.endpoint)
    monkeypatch.setenv("BULK_S3_ACCESS_KEY_ID", given.access_key_id)
    monkeypatch.setenv("BULK_S3_SECRET_ACCESS_KEY", given.secret_access_key)
    with locations.folder(s3_bucket.url, s3_bucket.access) as storage:
        storage.put("users.csv.gz", gzip.compress((SAMPLES / "users.csv").read_bytes()))
        source = storage.url_of("users.csv.gz")
    assert wanted(installation, source).status is JobState.COMPLETED_WITH_ERRORS
    assert installation.count("users") == 3


def test_from_ftp(installation: Installation, ftp_server: LoginServer, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ftp_server.place()
    monkeypatch.setenv("BULK_LOGIN_USER", place.access.login.user)
    monkeypatch.setenv("BULK_LOGIN_PASSWORD", place.access.login.password)
    with locations.folder(place.url, place.access) as storage:
        storage.put("users.csv", (SAMPLES / "users.csv").read_bytes())
        source = storage.url_of("users.csv")
    assert wanted(installation, source).status is JobState.COMPLETED_WITH_ERRORS
    assert installation.count("users") == 3


def test_from_a_web_server(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_ALLOW_PRIVATE_HTTP", "yes")
    with WebServer() as server:
        server.routes["/users.csv"] = content((SAMPLES / "users.csv").read_bytes())
        job = wanted(installation, f"{server.url}/users.csv")
    assert job.status is JobState.COMPLETED_WITH_ERRORS
    assert installation.count("users") == 3


def test_a_batch_that_cannot_be_written_is_given_up_and_the_rest_goes_on(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "RANGE_BYTES", 10_000)
    kind = replace(KINDS["import_users"], retry=RetryPolicy(max_attempts=1))
    with transaction(installation.engine) as connection:
        connection.execute(
            """CREATE FUNCTION fill_up() RETURNS trigger LANGUAGE plpgsql AS
                   $$BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END$$;
               CREATE TRIGGER full_disk BEFORE INSERT ON users FOR EACH ROW
                   WHEN (NEW.email = 'u900@example.org') EXECUTE FUNCTION fill_up();
               CREATE TRIGGER full_disk BEFORE INSERT ON users_aside FOR EACH ROW
                   WHEN (NEW.email = 'u900@example.org') EXECUTE FUNCTION fill_up()"""
        )
    rows = [f"u{n}@example.org,N,reader" for n in range(1_000)]
    job = installation.submit("users", file_of(tmp_path, "email,name,role\n" + "\n".join(rows) + "\n"))
    with transaction(installation.engine) as connection:
        jobs.start(connection, job.job_key)
    planning.plan(installation.engine, job)
    with Worker(installation.engine, {kind.name: kind}, job) as worker:
        drain(worker)
    ended = installation.find(job)
    assert ended.status is JobState.COMPLETED_WITH_ERRORS
    assert ended.dlq_items == 1
    assert ended.result is not None
    assert ended.result["loaded"] + ended.result["unprocessed"] == 1_000
    assert 0 < ended.result["unprocessed"] < 1_000
    assert installation.count("users") == ended.result["loaded"]
    assert "no room" in (ended.last_error or "") or "ranges" in (ended.last_error or "")


def test_a_record_of_50_megabytes_is_rejected_and_its_neighbours_are_loaded(
    installation: Installation, tmp_path: Path
) -> None:
    huge = "h@example.org," + "x" * 50_000_000 + ",reader\n"
    source = file_of(tmp_path, "email,name,role\na@example.org,A,reader\n" + huge + "b@example.org,B,reader\n")
    job = installation.imported("users", source)
    assert job.status is JobState.COMPLETED_WITH_ERRORS, job.last_error
    assert job.result is not None
    assert (job.result["read"], job.result["loaded"], job.result["rejected"]) == (3, 2, 1)
    with transaction(installation.engine) as connection:
        row = connection.execute("SELECT line, raw_size > 50000000, length(raw) < 1000000 FROM rejected_row").fetchone()
    assert row == (3, True, True), "its beginning is kept, and how long it is"
