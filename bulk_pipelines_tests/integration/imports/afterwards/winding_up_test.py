"""Imports that are over: what they left is cleared away, and their rejects are complete and can be replayed."""

import shutil
from pathlib import Path

import pytest

from bulk_pipelines import settings
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import cut_short, jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports import winding_up
from bulk_pipelines.imports.afterwards import replays
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.storage.access import access_of
from bulk_pipelines_tests.scenes.import_jobs import Imports, counts, file_of
from bulk_pipelines_tests.scenes.listening import before
from bulk_pipelines_tests.scenes.upserts import GOOD, upsert


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


def replay(imports: Imports, job: Job) -> tuple[Job, bool]:
    chosen = settings.current()
    found = replays.replay(imports.engine, job.job_key, landing.place(chosen), access_of(chosen), Actor("me", "cli"))
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
