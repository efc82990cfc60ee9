"""How imports end that do not go well, seen through Dagster: refused, given up in part, aborted or cancelled."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports.definitions import imports, launchables
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.orchestration.resources import Database, step_executor
from bulk_pipelines_tests.scenes.import_assets import SAMPLES, Installation, file_of
from bulk_pipelines_tests.scenes.listening import listening_everywhere


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
