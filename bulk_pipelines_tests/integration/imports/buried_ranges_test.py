"""Imports with ranges that could not be loaded: what waits for them, and what a redrive makes of it."""

from typing import Any

import pytest

from bulk_pipelines.engine.jobs import dlq, jobs
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import winding_up
from bulk_pipelines_tests.scenes.import_jobs import Imports, Row, counts, file_of
from bulk_pipelines_tests.scenes.upserts import EMAILS, GOOD, upsert


@pytest.mark.parametrize("buried", ["c0@x.org", "c7@x.org", "c3@x.org"])
def test_last_wins_after_a_redrive(imports: Imports, buried: str) -> None:
    """One range is buried: nothing is merged before it has been read, so that the last line of all wins."""
    imports.have({"both@x.org": "old"})
    rows: list[Row] = []
    for number, row in enumerate(GOOD):
        rows += [row, ("both@x.org", f"number {number}", "reader")]
    imports.buried(buried)
    first = imports.worked(upsert(imports, *rows))
    assert (first.status, first.dlq_items, imports.users()) == (JobState.FAILED, 1, {"both@x.org": "old"})
    assert "1 of" in (first.last_error or "")
    told = counts(first)
    assert told["waiting"] == told["read"]
    assert told["read"] + told["unprocessed"] == 16
    second = imports.redriven(first)
    assert (second.status, second.last_error) == (JobState.COMPLETED, None)
    assert imports.users() == dict.fromkeys(EMAILS, "new") | {"both@x.org": "number 7"}
    assert counts(second) == {"read": 16, "loaded": 9, "superseded": 7}


@pytest.mark.parametrize("buried", ["c0@x.org", "c7@x.org"])
def test_validation_finds_its_duplicates_after_a_redrive(imports: Imports, buried: str) -> None:
    rows: list[Row] = []
    for row in GOOD:
        rows += [row, ("both@x.org", "double", "reader")]
    imports.buried(buried)
    first = imports.worked(imports.planned(file_of(*rows), validate_only=True))
    assert (first.status, first.dlq_items) == (JobState.FAILED, 1)
    second = imports.redriven(first)
    assert second.status is JobState.COMPLETED_WITH_ERRORS
    assert counts(second) == {"read": 16, "rejected": 7, "valid": 9}
    found = imports.rejects(second)
    assert [line for line, (_, codes) in sorted(found.items()) if codes == ["duplicate_email"]] == list(range(5, 18, 2))
    assert imports.users() == {}


@pytest.mark.parametrize("buried", ["c0@x.org", "c7@x.org"])
def test_first_wins_after_a_redrive(imports: Imports, buried: str) -> None:
    """The first record of a key owns it, also when it is rejected itself, and one that is read later is a duplicate."""
    key = "00000000-0000-4000-8000-00000000000a"
    imports.have({"held@x.org": "old"})
    lines = ["id,email,name,role", f"{key},held@x.org,owner,reader"]
    lines += [f",{email},new,reader\n{key},d{number}@x.org,double,reader" for number, email in enumerate(EMAILS)]
    imports.buried(buried)
    first = imports.worked(imports.planned("\n".join(lines) + "\n"))
    assert (first.status, first.dlq_items) == (JobState.COMPLETED_WITH_ERRORS, 1)
    second = imports.redriven(first)
    assert imports.users() == dict.fromkeys(EMAILS, "new") | {"held@x.org": "old"}
    assert counts(second) == {"read": 17, "loaded": 8, "rejected": 9}
    assert {tuple(codes) for _, codes in imports.rejects(second).values()} == {("duplicate_email",), ("duplicate_id",)}
    assert imports.waiting() == 0


def test_an_aborted_upsert_with_a_buried_range_keeps_what_it_has_for_the_redrive(imports: Imports) -> None:
    imports.have({"c1@x.org": "old"})
    imports.buried("c7@x.org")
    job = upsert(imports, ("bad@x.org", "bad", "king"), *GOOD, on_error="12%")
    first = imports.worked(job)
    assert (first.status, first.dlq_items) == (JobState.FAILED, 1)
    winding_up.wind_up_all(imports.engine)
    assert imports.users() == {"c1@x.org": "old"}
    second = imports.redriven(first)
    assert (second.status, imports.users()) == (JobState.COMPLETED_WITH_ERRORS, dict.fromkeys(EMAILS, "new"))
    assert counts(second) == {"read": 9, "loaded": 8, "rejected": 1}


def test_a_redriven_import_that_is_then_cancelled_is_wound_up_again(imports: Imports) -> None:
    imports.buried("c7@x.org")
    first = imports.worked(upsert(imports, *GOOD))
    assert counts(first)["waiting"] == counts(first)["read"]
    jobs_redriven = imports.redrive(first)
    assert (jobs_redriven.status, jobs_redriven.result) == (JobState.RUNNING, None)
    jobs.cancel(imports.engine, first.job_key)
    assert winding_up.wind_up_all(imports.engine) == 1
    assert counts(imports.look(first)) == {"unprocessed": 8}
    assert (imports.users(), imports.waiting()) == ({}, 0)


@pytest.mark.parametrize("options", [{"mode": "upsert"}, {"validate_only": True}, {"mode": "insert"}])
def test_what_waits_goes_when_the_buried_range_is_discarded(imports: Imports, options: dict[str, Any]) -> None:
    imports.buried("c7@x.org")
    job = imports.worked(imports.planned(file_of(GOOD[0], *GOOD), **options))
    before = counts(job)
    assert winding_up.wind_up_all(imports.engine) == 0
    assert imports.waiting() > 0, "the range may be tried again"
    dlq.discard(imports.engine, Wanted(job_key=job.job_key))
    winding_up.wind_up_all(imports.engine)
    assert imports.waiting() == 0
    ended = imports.look(job)
    assert ended.status is job.status
    if options.get("mode") == "insert":
        assert counts(ended) == before
    else:
        assert counts(ended) == {"unprocessed": 9}


@pytest.mark.parametrize(
    ("rows", "buried", "status"),
    [
        (GOOD[:1], EMAILS[:1], JobState.FAILED),
        ([*GOOD[:1], ("x@x.org", "x", "king")], EMAILS[:1], JobState.FAILED),
        (GOOD, EMAILS[:1], JobState.COMPLETED_WITH_ERRORS),
    ],
    ids=["the only range", "all others rejected", "others loaded"],
)
def test_an_import_with_a_buried_range_has_failed_when_nothing_was_loaded(
    imports: Imports, rows: list[Row], buried: list[str], status: JobState
) -> None:
    imports.buried(*buried)
    job = imports.worked(imports.planned(file_of(*rows)))
    assert (job.status, job.dlq_items) == (status, 1)
    assert "could not be loaded" in (job.last_error or "")
