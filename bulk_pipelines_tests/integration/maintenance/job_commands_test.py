"""`bulk jobs` and `bulk job show`: found by whatever is asked, for people and for programs."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs, runs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Done
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.maintenance.job_answers import JobLine, JobShown

KINDS = Kinds([Kind(name, lambda lease, tools: Done()) for name in ("import_users", "distribution")])


@pytest.fixture(autouse=True)
def _settings(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)


def bulk(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def submitted(
    engine: Engine, kind: str = "import_users", owner: str = "ada", origin: str = "api", **params: Any
) -> Job:
    with transaction(engine) as connection:
        return submission.submit(connection, KINDS, Sender(owner, origin).asks(kind, params)).job


def listed(*arguments: str) -> list[str]:
    found = TypeAdapter(list[JobLine]).validate_json(bulk("jobs", "--json", *arguments))
    return [each.job for each in found]


def test_found_by_whatever_is_asked(engine: Engine) -> None:
    assert bulk("jobs") == "no jobs\n"
    first = submitted(engine).job_key
    second = submitted(engine, "distribution", "bob", note="Quarterly 100%").job_key
    third = submitted(engine, origin="cli").job_key
    with transaction(engine) as connection:
        jobs.cancel(engine, third)
        connection.execute("UPDATE job SET created_at = '2020-01-05 12:00' WHERE job_key = %s", [first])
    assert listed() == [third, second, first]
    assert listed("--kind", "distribution") == [second]
    assert listed("--state", "cancelled", "--state", "running") == [third]
    assert listed("--owner", "bob") == [second]
    assert listed("--origin", "api") == [second, first]
    assert listed("--text", "quarterly 100%") == [second]
    assert listed("--text", "_%") == []
    assert listed("--since", "2020-01-05", "--until", "2020-01-06") == [first]
    assert listed("--limit", "2") == [third, second]
    assert listed("--limit", "2", "--before", second) == [first]
    assert listed("--state", "CANCELLED") == [third]
    refused = bulk("jobs", "--state", "lost", code=2)
    assert "'lost' is not one of" in refused
    assert all(f"'{state.lower()}'" in refused for state in JobState)
    page = CliRunner().invoke(main, ["jobs", "--limit", "1"])
    assert page.stdout.splitlines()[1].split()[:3] == [third, "import_users", "CANCELLED"]
    assert page.stdout.splitlines()[-1] == f"… the next ones: --before {third}"
    assert "…" not in CliRunner().invoke(main, ["--quiet", "jobs", "--limit", "1"]).output


def test_one_job_with_its_runs_and_what_to_do_next(engine: Engine) -> None:
    job = submitted(engine, source="ftp://me:s3cret@host/a.csv", files=[{"url": "ftp://me:s3cret@host/b.csv"}])
    runs.take_up(engine, job.job_key, "0d1c2b3a-run", by_person=False)
    shown = TypeAdapter(JobShown).validate_json(bulk("job", "show", job.job_key, "--json"))
    assert shown.job.state == "RUNNING"
    assert [run.url for run in shown.runs] == ["http://127.0.0.1:3000/runs/0d1c2b3a-run"]
    text = bulk("job", "show", job.job_key)
    assert text.splitlines()[0] == job.job_key
    assert f"-> bulk pause {job.job_key}" in text
    assert "/runs/0d1c2b3a-run" in text
    assert "s3cret" not in text + json.dumps(shown.request)
    assert "no job has the key 'J1'" in bulk("job", "show", "J1", code=1)


@pytest.mark.parametrize(
    ("state", "code"), [("COMPLETED", 0), ("COMPLETED_WITH_ERRORS", 3), ("FAILED", 1), ("CANCELLED", 1)]
)
def test_whoever_watches_has_the_end_as_an_exit_code(engine: Engine, state: str, code: int) -> None:
    job = submitted(engine)
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE job SET status = %s, started_at = now(), planned_at = now(), finished_at = now()", [state]
        )
    assert job.job_key in bulk("job", "show", job.job_key, "--watch", code=code)
