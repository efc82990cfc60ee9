"""How imports end: aborted, cancelled at any step, with buried ranges, redriven, and wound up."""

import pytest

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import end, jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import winding_up
from bulk_pipelines.imports.reconcile import last_wins
from bulk_pipelines_tests.scenes.import_jobs import Imports, counts
from bulk_pipelines_tests.scenes.listening import before
from bulk_pipelines_tests.scenes.upserts import EMAILS, GOOD, upsert


def test_an_upsert_that_is_aborted_at_its_end_changes_nothing(imports: Imports) -> None:
    """Fewer records than a share is looked at before the end."""
    imports.have({"c1@x.org": "old"})
    rows = [("c1@x.org", "new", "reader"), ("c2@x.org", "new", "king"), ("c3@x.org", "new", "king")]
    job = imports.worked(upsert(imports, *rows, on_error="5%"))
    assert (job.status, imports.users()) == (JobState.FAILED, {"c1@x.org": "old"})
    assert "aborted" in (job.last_error or "")
    assert counts(job) == {"read": 2, "rejected": 2, "unprocessed": 1}
    assert imports.waiting() == 0


def test_an_import_that_is_cancelled_when_it_has_too_many_rejects_stays_cancelled(imports: Imports) -> None:
    """The worker has read that there are too many, and the job is over when it is to fail."""
    job = imports.planned("email,name,role\na@x.org,A,king\n", on_error="abort")
    counted = queries.text("import_progress", "counts")
    cancelled = imports.worked(job, before(counted, lambda: jobs.cancel(imports.engine, job.job_key), number=2))
    assert (cancelled.status, cancelled.dlq_items, cancelled.last_error) == (JobState.CANCELLED, 0, None)


@pytest.mark.parametrize("on_error", ["abort", "20%"])
def test_a_limit_that_only_reconciling_breaks_is_judged_before_the_first_row_is_merged(
    imports: Imports, on_error: str
) -> None:
    """Duplicates of the file's own records; the ids tell which rows they are about."""
    keys = [f"00000000-0000-4000-8000-{number:012}" for number in range(4)]
    emails = ["a@x.org", "b@x.org", "b@x.org", "c@x.org"]
    text = "id,email,name,role\n" + "".join(
        f"{key},{email},new,reader\n" for key, email in zip(keys, emails, strict=True)
    )
    with transaction(imports.engine) as connection:
        connection.execute(
            "INSERT INTO users (id, email, name, role) VALUES (%s, 'z@x.org', 'old', 'reader')", [keys[0]]
        )
    job = imports.worked(imports.planned(text, mode="upsert", match_on="id", on_error=on_error))
    assert (job.status, imports.users()) == (JobState.FAILED, {"z@x.org": "old"})
    assert counts(job) == {"read": 1, "rejected": 1, "unprocessed": 3}
    assert imports.rejects(job) == {3: (f"{keys[1]},b@x.org,new,reader", ["duplicate_email"])}


def test_what_only_the_table_refuses_is_told_and_takes_back_the_merge(imports: Imports) -> None:
    imports.have({"c1@x.org": "old"})
    with transaction(imports.engine) as connection:
        connection.execute("ALTER TABLE users ADD CONSTRAINT no_bobs CHECK (email NOT LIKE 'bob%')")
    rows = [("c1@x.org", "new", "reader"), ("bob@x.org", "new", "reader"), ("c2@x.org", "new", "reader")]
    aborted = imports.worked(upsert(imports, *rows, on_error="abort"))
    assert (aborted.status, imports.users()) == (JobState.FAILED, {"c1@x.org": "old"})
    assert counts(aborted) == {"read": 1, "rejected": 1, "unprocessed": 2}
    assert imports.rejects(aborted) == {3: ("bob@x.org,new,reader", ["refused_by_table"])}
    accepted = imports.worked(upsert(imports, *rows, on_error="1"))
    assert accepted.status is JobState.COMPLETED_WITH_ERRORS
    assert imports.users() == {"c1@x.org": "new", "c2@x.org": "new"}
    assert counts(accepted) == {"read": 3, "loaded": 2, "rejected": 1}
    assert imports.rejects(accepted) == {3: ("bob@x.org,new,reader", ["refused_by_table"])}


MERGE = "MERGE INTO"
STEPS = [
    pytest.param("max(import_line) OVER", 1, id="it compares the records"),
    pytest.param("SET CONSTRAINTS ALL IMMEDIATE", 1, id="it begins to merge"),
    pytest.param(MERGE, 1, id="it merges the first"),
    pytest.param(MERGE, 2, id="it merges the second"),
    pytest.param("ORDER BY import_line LIMIT", 5, id="it has merged all"),
]
"""Statements of reconciling, by words in them and their number."""


@pytest.mark.parametrize(("step", "number"), STEPS)
def test_an_upsert_that_is_cancelled_while_it_reconciles_changes_nothing(
    imports: Imports, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    monkeypatch.setattr(last_wins, "AT_ONCE", 2)
    imports.have(dict.fromkeys(EMAILS[:4], "old"))
    job = upsert(imports, *GOOD, ("c0@x.org", "king", "king"))
    cancelled = imports.worked(job, before(step, lambda: jobs.cancel(imports.engine, job.job_key), number=number))
    assert cancelled.status is JobState.CANCELLED
    winding_up.wind_up(imports.engine, job.job_key)
    assert imports.users() == dict.fromkeys(EMAILS[:4], "old")
    assert counts(imports.look(job)) == {"read": 1, "rejected": 1, "unprocessed": 8}
    assert imports.waiting() == 0
    assert winding_up.wind_up_all(imports.engine) == 0


@pytest.mark.parametrize(("step", "number"), STEPS)
def test_a_paused_upsert_begins_its_merge_again(
    imports: Imports, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    monkeypatch.setattr(last_wins, "AT_ONCE", 2)
    job = upsert(imports, *GOOD)

    def pause() -> None:
        with transaction(imports.engine) as connection:
            jobs.pause(connection, job.job_key)

    paused = imports.worked(job, before(step, pause, number=number))
    assert (paused.status, paused.result, imports.users()) == (JobState.PAUSED, None, {})
    with transaction(imports.engine) as connection:
        jobs.resume(connection, job.job_key)
    ended = imports.worked(imports.look(job))
    assert (ended.status, imports.users()) == (JobState.COMPLETED, dict.fromkeys(EMAILS, "new"))
    assert counts(ended) == {"read": 8, "loaded": 8}


def test_an_upsert_that_is_killed_while_it_merges_changes_nothing_and_is_merged_by_the_next(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_wins, "AT_ONCE", 2)
    job = upsert(imports, *GOOD)

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imports.worked(job, before(MERGE, die, number=3))
    assert (imports.users(), imports.waiting()) == ({}, 8)
    ended = end.run_once(imports.engine, imports.kinds)
    assert [each.status for each in ended] == [JobState.COMPLETED]
    assert imports.users() == dict.fromkeys(EMAILS, "new")


def test_a_row_that_others_add_while_it_is_merged_is_changed_by_the_next_try(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_wins, "AT_ONCE", 2)
    job = upsert(imports, *GOOD)
    ended = imports.worked(job, before(MERGE, lambda: imports.have({"c5@x.org": "theirs"})))
    assert (ended.status, imports.users()) == (JobState.COMPLETED, dict.fromkeys(EMAILS, "new"))
    assert counts(ended) == {"read": 8, "loaded": 8}
