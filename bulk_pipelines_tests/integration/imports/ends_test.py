"""How imports end: aborted, cancelled at any step, with buried ranges, redriven, and wound up."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import cut_short, dlq, end, jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports import submission, winding_up
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.reconcile import last_wins
from bulk_pipelines.storage.access import access_of
from bulk_pipelines_tests.scenes.import_jobs import Imports, Row, counts, file_of, imports_of
from bulk_pipelines_tests.scenes.listening import before

EMAILS = [f"c{number}@x.org" for number in range(8)]
GOOD = [(email, "new", "reader") for email in EMAILS]


@pytest.fixture
def imports(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    return imports_of(engine, tmp_path, monkeypatch)


def upsert(imports: Imports, *rows: Row, **options: Any) -> Job:
    return imports.planned(file_of(*rows), mode="upsert", match_on="email", **options)


# Aborted


def test_an_upsert_that_is_aborted_at_its_end_changes_nothing(imports: Imports) -> None:
    """Fewer records than a share is looked at before the end."""
    imports.have({"c1@x.org": "old"})
    rows = [("c1@x.org", "new", "reader"), ("c2@x.org", "new", "king"), ("c3@x.org", "new", "king")]
    job = imports.worked(upsert(imports, *rows, on_error="5%"))
    assert (job.status, imports.users()) == (JobState.FAILED, {"c1@x.org": "old"})
    assert "aborted" in (job.last_error or "")
    assert counts(job) == {"read": 2, "rejected": 2, "unprocessed": 1}
    assert imports.waiting() == 0


@pytest.mark.parametrize("on_error", ["abort", "20%"])
def test_a_limit_that_only_the_settling_breaks_is_judged_before_the_first_row_is_merged(
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


# Cancelled or paused while it settles


MERGE = "MERGE INTO"
STEPS = [
    pytest.param("max(import_line) OVER", 1, id="it compares the records"),
    pytest.param("SET CONSTRAINTS ALL IMMEDIATE", 1, id="it begins to merge"),
    pytest.param(MERGE, 1, id="it merges the first"),
    pytest.param(MERGE, 2, id="it merges the second"),
    pytest.param("ORDER BY import_line LIMIT", 5, id="it has merged all"),
]
"""Statements of the settling, by words in them and their number."""


@pytest.mark.parametrize(("step", "number"), STEPS)
def test_an_upsert_that_is_cancelled_while_it_settles_changes_nothing(
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


# Buried ranges


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
    assert "ranges could not be loaded" in (job.last_error or "")


# Winding up


def test_an_upsert_of_a_known_duplicate_is_wound_up_and_so_are_those_behind_it(imports: Imports) -> None:
    text = file_of(*GOOD)
    first = imports.worked(upsert(imports, *GOOD))
    assert first.result is not None
    known = (first.result["files"][0]["sha256"],)
    empty = imports.planned(text, mode="upsert", match_on="email", known_sha256=known)
    behind = upsert(imports, *GOOD)
    for job in (empty, behind):
        jobs.cancel(imports.engine, job.job_key)
    assert winding_up.wind_up_all(imports.engine) == 2
    assert counts(imports.look(empty)) == {}
    assert counts(imports.look(behind)) == {"unprocessed": 8}


def test_an_import_that_cannot_be_wound_up_keeps_no_other_from_it(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_short, "AT_A_TIME", 1)
    broken, whole = (imports.planned(file_of(*GOOD)) for _ in range(2))
    for job in (broken, whole):
        jobs.cancel(imports.engine, job.job_key)
    with transaction(imports.engine) as connection:
        connection.execute("UPDATE job SET params = '{}' WHERE job_id = %s", [broken.job_id])
    assert winding_up.wind_up_all(imports.engine) == 1
    assert imports.look(broken).result is None
    assert counts(imports.look(whole)) == {"unprocessed": 8}


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_import_whose_landed_file_was_removed_ends(imports: Imports, is_cancelled: bool) -> None:
    """Nobody can tell what was in the ranges that were not read; that is no reason to go on for ever."""
    rows = [*GOOD[:4], ("c0@x.org", "again", "reader"), *GOOD[4:]]
    job = imports.planned(file_of(*rows))
    if is_cancelled:
        jobs.cancel(imports.engine, job.job_key)
    shutil.rmtree(Path(landing.place(settings.current())))
    ended = imports.worked(job)
    winding_up.wind_up_all(imports.engine)
    assert ended.status is (JobState.CANCELLED if is_cancelled else JobState.FAILED)
    assert counts(imports.look(job)) == {}


# Replays


def replay(imports: Imports, job: Job) -> tuple[Job, bool]:
    chosen = settings.current()
    found = submission.replay(imports.engine, job.job_key, landing.place(chosen), access_of(chosen), Actor("me", "cli"))
    return found.job, found.created


def test_rejects_are_replayed_when_they_are_complete_and_once_whoever_asks(imports: Imports) -> None:
    imports.buried("c7@x.org")
    job = imports.worked(imports.planned(file_of(("bad@x.org", "bad", "king"), *GOOD)))
    with pytest.raises(Conflict, match="DLQ"):
        replay(imports, job)
    job = imports.redriven(job)
    first, created = replay(imports, job)
    assert (created, first.owner) == (True, job.owner)
    (address,) = imports.query(f"SELECT address FROM import_file WHERE job_id = {first.job_id}")
    path = Path(address[0])
    path.write_text("taken already")
    assert replay(imports, job) == (first, False)
    assert path.read_text() == "taken already"


# What a validation knows


def test_rejects_of_a_cancelled_import_are_complete_before_they_are_replayed(imports: Imports) -> None:
    """Nobody has wound it up yet, so some of its rejects are still without their records."""
    keys = [f"00000000-0000-4000-8000-{number:012}" for number in range(3)]
    emails = ["a@x.org", "b@x.org", "b@x.org"]
    text = "id,email,name,role\n" + "".join(
        f"{key},{email},new,reader\n" for key, email in zip(keys, emails, strict=True)
    )
    job = imports.planned(text, mode="upsert", match_on="id")

    def die() -> None:
        jobs.cancel(imports.engine, job.job_key)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imports.worked(job, before(queries.text("imports", "unread_rejected_rows"), die))
    assert imports.look(job).status is JobState.CANCELLED
    assert imports.rejects(job) == {3: ("UNREAD", ["duplicate_email"])}
    again, _ = replay(imports, job)
    ((address,),) = imports.query(f"SELECT address FROM import_file WHERE job_id = {again.job_id}")
    path = Path(address)
    assert path.read_text() == f"id,email,name,role\n{keys[1]},b@x.org,new,reader\n"
    assert imports.look(job).result is not None


def test_a_validation_rejects_what_an_undeclared_check_refuses(imports: Imports) -> None:
    with transaction(imports.engine) as connection:
        connection.execute("ALTER TABLE users ADD CONSTRAINT no_bobs CHECK (email NOT LIKE 'bob%')")
    imports.have({"bob0@x.org".upper(): "old"})
    rows = [*GOOD, ("bob1@x.org", "Bob", "reader"), ("c9@x.org", "new", "reader"), ("BOB0@x.org", "Bob", "reader")]
    validated = imports.worked(imports.planned(file_of(*rows), validate_only=True))
    assert imports.users() == {"BOB0@X.ORG": "old"}
    inserted = imports.worked(imports.planned(file_of(*rows)))
    assert imports.rejects(validated) == imports.rejects(inserted)
    assert counts(validated) == {"read": 11, "valid": 9, "rejected": 2}
    assert counts(inserted) == {"read": 11, "loaded": 9, "rejected": 2}
