"""Imports worked by Dagster: what is loaded, what a person sees, and how an import is asked for."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from bulk_pipelines import definitions
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import listing
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import request, submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines_tests.scenes.import_assets import SAMPLES, Installation, file_of
from bulk_pipelines_tests.scenes.listening import listening_everywhere
from bulk_pipelines_tests.scenes.waiting import until


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
    """One process does all that is counted, from the import's submission to the checks of its asset."""
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
