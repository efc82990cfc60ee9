"""What people do to jobs is written down with it, by whatever door they came in; what does not happen is not."""

from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import UnknownJob, WrongState
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.jobs import audit, dlq, jobs, quotas, redrive, runs
from bulk_pipelines.engine.jobs.audit import Actor, Wanted
from bulk_pipelines.engine.jobs.dlq import Wanted as DeadLetters
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.quotas import Quota
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.errors import OverQuota
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile

ADA = Actor("ada", "api", "10.0.0.7", "request-1", admin=False)
EVE = Actor("eve", "api", admin=False)


def submitted(engine: Engine, owner: str = "ada", **sender: Any) -> Job:
    request = Options("users").request((RequestedFile("/nowhere/users.csv"),))
    with transaction(engine) as connection:
        return submission.submit(connection, request, Sender(owner, "api", **sender)).job


def entries(engine: Engine, **wanted: Any) -> list[tuple[str, str, str | None, str | None]]:
    with transaction(engine) as connection:
        found = audit.page(connection, Wanted(**wanted))
    return [(each.actor, each.action, each.address, each.request_id) for each in reversed(found)]


def test_everything_that_is_done_to_a_job_is_kept_with_who_and_whence(engine: Engine) -> None:
    job = submitted(engine, by="root", address="10.0.0.9", request_id="request-0")
    with transaction(engine) as connection:
        jobs.pause(connection, job.job_key, ADA)
        jobs.pause(connection, job.job_key, ADA)
        jobs.resume(connection, job.job_key, ADA)
    jobs.cancel(engine, job.job_key, ADA)
    assert entries(engine, job_key=job.job_key) == [
        ("root", "submit", "10.0.0.9", "request-0"),
        ("ada", "pause", "10.0.0.7", "request-1"),
        ("ada", "resume", "10.0.0.7", "request-1"),
        ("ada", "cancel", "10.0.0.7", "request-1"),
    ]
    with transaction(engine) as connection:
        assert jobs.find(connection, job.job_key).address == "10.0.0.9"


def test_what_was_refused_or_rolled_back_is_not_in_it(engine: Engine) -> None:
    job = submitted(engine)
    jobs.cancel(engine, job.job_key, ADA)
    before = entries(engine)
    with pytest.raises(WrongState), transaction(engine) as connection:
        jobs.pause(connection, job.job_key, ADA)
    with pytest.raises(ZeroDivisionError), transaction(engine) as connection:
        jobs.fail(connection, submitted(engine).job_key, "no")
        raise ZeroDivisionError
    assert entries(engine, action="pause") == []
    assert entries(engine)[: len(before)] == before


def test_a_submission_that_is_repeated_is_one(engine: Engine) -> None:
    for _ in range(3):
        submitted(engine, idempotency_key="once")
    assert len(entries(engine, action="submit")) == 1


def test_anothers_job_does_not_exist(engine: Engine) -> None:
    job = submitted(engine)
    with transaction(engine) as connection:
        for act in (jobs.pause, jobs.resume):
            with pytest.raises(UnknownJob):
                act(connection, job.job_key, EVE)
        with pytest.raises(UnknownJob):
            jobs.find(connection, job.job_key, "eve")
        assert jobs.find(connection, job.job_key, "ada") == job
    with pytest.raises(UnknownJob):
        jobs.cancel(engine, job.job_key, EVE)
    assert entries(engine, actor="eve") == []


def test_an_owner_sees_what_was_done_to_the_owners_jobs(engine: Engine) -> None:
    job = submitted(engine)
    submitted(engine, "eve")
    with transaction(engine) as connection:
        jobs.pause(connection, job.job_key, Actor("root", "cli"))
        seen = audit.page(connection, Wanted(), visible_to="ada")
    assert [(each.actor, each.action) for each in seen] == [("root", "pause"), ("ada", "submit")]


def test_commands_are_audited(engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    monkeypatch.setenv("LOGNAME", "grace")
    job = submitted(engine)
    for command in ("pause", "resume", "cancel"):
        assert CliRunner().invoke(main, [command, job.job_key]).exit_code == 0
    assert [each[:2] for each in entries(engine)] == [
        ("ada", "submit"),
        ("grace", "pause"),
        ("grace", "resume"),
        ("grace", "cancel"),
    ]
    shown = CliRunner().invoke(main, ["audit", "--job", job.job_key, "--action", "pause"]).output
    assert "grace (cli)  pause" in shown
    assert shown.count("\n") == 1
    made = CliRunner().invoke(main, ["keys", "create", "--owner", "ada", "--expires", "90d"])
    assert made.stdout.startswith("bulk_")
    assert "ada (write)" in made.stderr
    listed = CliRunner().invoke(main, ["keys", "list"]).output
    assert listed.split()[1:4] == ["write", "valid", "ada"]
    assert made.stdout.strip() not in listed
    assert "is revoked" in CliRunner().invoke(main, ["keys", "revoke", listed.split(" ")[0]]).output
    assert "revoked" in CliRunner().invoke(main, ["keys", "list"]).output


def test_a_launch_by_hand_is_kept_once_a_run(engine: Engine) -> None:
    job = submitted(engine)
    for _ in range(2):
        runs.take_up(engine, job.job_key, "run-1", by_person=True, by=audit.UI)
    runs.take_up(engine, job.job_key, "run-2", by_person=False)
    with transaction(engine) as connection:
        (found,) = audit.page(connection, Wanted(action="launch"))
    assert (found.actor, found.origin, found.details) == ("ui", "ui", {"run": "run-1", "was": "SUBMITTED"})


def test_dead_letters_that_are_tried_again_or_discarded_are_counted(engine: Engine) -> None:
    job = submitted(engine)
    with transaction(engine) as connection:
        jobs.start(connection, job.job_key)
    persist.add_items(engine, job.job_id, [(f"{number}", {}) for number in range(5)], BatchSizer.within(BatchLimits()))
    with transaction(engine) as connection:
        connection.execute("UPDATE job_item SET status = 'DLQ', error_message = 'no' WHERE job_id = %s", [job.job_id])
        connection.execute("UPDATE job SET pending_items = 0, dlq_items = 5 WHERE job_id = %s", [job.job_id])
        ids = [row[0] for row in connection.execute("SELECT item_id FROM job_item ORDER BY 1")]
    with pytest.raises(UnknownJob):
        redrive.redrive(engine, job.job_key, by=EVE)
    assert redrive.redrive(engine, job.job_key, item_ids=ids[:2], by=ADA) == 2
    assert dlq.discard(engine, DeadLetters(job.job_key), EVE) == 0
    assert dlq.discard(engine, DeadLetters(job.job_key), ADA) == 3
    with transaction(engine) as connection:
        found = audit.page(connection, Wanted(actor="ada"))
    assert [(each.action, each.details.get("count")) for each in found if each.action != "submit"] == [
        ("discard", 3),
        ("redrive", 2),
    ]


def test_an_owner_has_no_more_than_a_quota(engine: Engine) -> None:
    quota = Quota(jobs=2, items=10, bytes=100)
    with transaction(engine) as connection:
        assert quotas.admit(connection, "ada", quota, items=3, sent=60) == quotas.Left(1, 7, 40)
    with pytest.raises(OverQuota, match="may send 40 more of 100 bytes"), transaction(engine) as connection:
        quotas.admit(connection, "ada", quota, sent=41)
    with pytest.raises(OverQuota, match="10 more open items of 10"), transaction(engine) as connection:
        quotas.admit(connection, "ada", quota, items=11)
    submitted(engine)
    submitted(engine)
    submitted(engine, "eve")
    with pytest.raises(OverQuota, match="2 unfinished jobs"), transaction(engine) as connection:
        quotas.admit(connection, "ada", quota)
    with transaction(engine) as connection:
        quotas.admit(connection, "eve", quota)
