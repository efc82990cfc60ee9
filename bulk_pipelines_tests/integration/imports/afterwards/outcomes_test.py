"""The records of an import by what became of them: each stands in one of the three files, in the order of the input."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.errors import Conflict, Gone, InvalidInput
from bulk_pipelines.imports import retention, winding_up
from bulk_pipelines.imports.afterwards import outcomes
from bulk_pipelines.imports.afterwards.outcomes import Outcome
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.load.rejects import Download
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.errors import Missing
from bulk_pipelines_tests.scenes.import_jobs import Imports, Row, counts, file_of, imports_of

ROWS: Sequence[Row] = [
    (f"user{number}@example.org" if number % 5 else f"user{number}", f"Name {number}", "reader") for number in range(40)
] + [("user3@example.org", "Again", "reader")]


@pytest.fixture
def imports(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    return imports_of(engine, tmp_path, monkeypatch, range_bytes=150)


def download(engine: Engine, job: Job, outcome: Outcome, number: int | None = None) -> str:
    _, pieces = outcomes.download(lambda: transaction(engine), job, outcome, number)
    return b"".join(pieces).decode()


def lines(engine: Engine, job: Job, outcome: Outcome) -> list[str]:
    header, *found = download(engine, job, outcome).splitlines()
    assert header == "email,name,role"
    return found


def all_of(engine: Engine, job: Job) -> dict[Outcome, list[str]]:
    """Return the three files, after a look whether every record stands in one of them, in the order of the input, and
    whether they are as many as the import has counted."""
    found = {outcome: lines(engine, job, outcome) for outcome in Outcome}
    order = [",".join(row) for row in ROWS]
    assert sorted(line for each in found.values() for line in each) == sorted(order)
    for each in found.values():
        assert each == [line for line in order if line in set(each)]
    said = counts(job)
    assert len(found[Outcome.FAILED]) == said.get("rejected", 0)
    assert len(found[Outcome.UNPROCESSED]) == said.get("unprocessed", 0)
    good = said.get("loaded", 0) + said.get("superseded", 0) + said.get("valid", 0)
    assert len(found[Outcome.SUCCESSFUL]) == good
    return found


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_range_that_was_buried_is_unprocessed(imports: Imports, engine: Engine, mode: str) -> None:
    imports.buried("user11@example.org")
    job = imports.worked(imports.planned(file_of(*ROWS), mode=mode))
    assert job.dlq_items == 1
    found = all_of(engine, job) if mode == "insert" else {}
    if mode == "insert":
        assert any(line.startswith("user11@") for line in found[Outcome.UNPROCESSED])
    job = imports.redriven(job)
    found = all_of(engine, job)
    assert found[Outcome.UNPROCESSED] == []
    assert all("@" not in line or mode == "insert" for line in found[Outcome.FAILED])


def test_a_validation_tells_what_would_be_loaded(imports: Imports, engine: Engine) -> None:
    found = all_of(engine, imports.worked(imports.planned(file_of(*ROWS), validate_only=True)))
    assert len(found[Outcome.FAILED]) == 9


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_of_a_cancelled_import_everything_is_unprocessed_that_was_not_decided(
    imports: Imports, engine: Engine, mode: str
) -> None:
    job = imports.planned(file_of(*ROWS), mode=mode)
    with pytest.raises(Conflict):
        download(engine, job, Outcome.FAILED)
    jobs.cancel(engine, job.job_key)
    winding_up.wind_up(engine, job.job_key)
    found = all_of(engine, imports.look(job))
    assert len(found[Outcome.UNPROCESSED]) == len(ROWS)


def test_other_formats_come_in_their_own_form(imports: Imports, engine: Engine) -> None:
    records = [dict(zip(("email", "name", "role"), row, strict=True)) for row in ROWS]
    as_array = imports.worked(imports.planned(json.dumps(records)))
    found = {outcome: json.loads(download(engine, as_array, outcome)) for outcome in Outcome}
    assert [each["email"] for each in found[Outcome.FAILED]] == [
        *(row[0] for row in ROWS if "@" not in row[0]),
        "user3@example.org",
    ]
    assert len(found[Outcome.SUCCESSFUL]) == 32
    assert found[Outcome.UNPROCESSED] == []
    as_lines = imports.worked(imports.planned("".join(json.dumps(each) + "\n" for each in records)))
    assert [json.loads(each) for each in download(engine, as_lines, Outcome.FAILED).splitlines()] == records
    assert download(engine, as_lines, Outcome.SUCCESSFUL) == ""


def test_several_files_are_told_apart_where_their_columns_differ(imports: Imports, engine: Engine) -> None:
    first = "email,name,role\na@example.org,A,reader\n"
    second = "name,email,role\nB,b@example.org,reader\n"
    job = imports.worked(imports.planned(first, second))
    with pytest.raises(InvalidInput, match="file"):
        download(engine, job, Outcome.SUCCESSFUL)
    assert download(engine, job, Outcome.SUCCESSFUL, 1) == first
    assert download(engine, job, Outcome.SUCCESSFUL, 2) == second
    with pytest.raises(Conflict):
        download(engine, job, Outcome.SUCCESSFUL, 3)
    alike = imports.worked(imports.planned(first.replace("a@", "c@"), first.replace("a@", "d@")))
    assert download(engine, alike, Outcome.SUCCESSFUL).count("\n") == 3


def test_when_the_landed_file_is_gone_that_is_said(imports: Imports, engine: Engine) -> None:
    job = imports.worked(imports.planned(file_of(*ROWS)))
    with locations.folder(str(imports.folder / "home" / "landed"), Access()) as storage:
        landing.remove(storage, job.job_key)
    with pytest.raises(Missing, match="BULK_KEEP_LANDED_DAYS"):
        download(engine, job, Outcome.SUCCESSFUL)


def test_no_reject_that_retention_has_removed_is_taken_for_loaded(imports: Imports, engine: Engine) -> None:
    job = imports.worked(imports.planned(file_of(*ROWS)))
    _, begun = outcomes.download(lambda: transaction(engine), job, Outcome.SUCCESSFUL)
    assert retention.remove_rejects(engine, job.job_id) == 9
    with pytest.raises(Gone, match="BULK_KEEP_REJECTS_DAYS"):
        b"".join(begun)
    for outcome in Outcome:
        with pytest.raises(Gone, match="BULK_KEEP_REJECTS_DAYS"):
            outcomes.download(lambda: transaction(engine), job, outcome)
    with pytest.raises(Gone, match="BULK_KEEP_REJECTS_DAYS"):
        rejects.download(lambda: transaction(engine), job.job_id, Download.CSV)


def test_no_range_that_retention_has_removed_is_passed_over(imports: Imports, engine: Engine) -> None:
    job = imports.worked(imports.planned(file_of(*ROWS)))
    with transaction(engine) as connection:
        connection.execute("DELETE FROM job_item WHERE item_key = '000002'")
    with pytest.raises(Gone, match="BULK_KEEP_ITEMS_DAYS"):
        outcomes.download(lambda: transaction(engine), job, Outcome.SUCCESSFUL)


def test_a_download_of_rejects_that_retention_overtakes_is_broken_off(
    imports: Imports, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = imports.worked(imports.planned(file_of(*ROWS)))
    monkeypatch.setattr(rejects, "PAGE_BYTES", 60)
    pieces = rejects.download(lambda: transaction(engine), job.job_id, Download.NDJSON)
    assert 0 < next(pieces).count(b"\n") < 9
    retention.remove_rejects(engine, job.job_id)
    with pytest.raises(Gone, match="BULK_KEEP_REJECTS_DAYS"):
        b"".join(pieces)
