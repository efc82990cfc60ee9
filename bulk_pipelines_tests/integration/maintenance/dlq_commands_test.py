"""`bulk dlq list | show | redrive | discard`, narrowed by job, kind, error class and age."""

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction

RUN = "0d1c2b3a-0000-4000-8000-00000000000a"


@pytest.fixture(autouse=True)
def _settings(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)


def bulk(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["dlq", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def letters(engine: Engine, kind: str, *error_classes: str, hours: int = 0) -> str:
    """A job that failed that long ago, with a dead letter of each class."""
    with transaction(engine) as connection:
        row = connection.execute(
            """INSERT INTO job (kind, owner, origin, request_hash, status, started_at, planned_at, finished_at,
                   total_items, dlq_items, dagster_run_id)
               VALUES (%s, 'me', 'api', '', 'FAILED', now(), now(), now(), %s, %s, 'a later run')
               RETURNING job_id, job_key""",
            [kind, len(error_classes), len(error_classes)],
        ).fetchone()
        assert row is not None
        for each in error_classes:
            connection.execute(
                """INSERT INTO job_item (job_id, item_key, owner, kind, status, error_class, error_message,
                       attempt_count, lease_owner, updated_at, input)
                   VALUES (%s, %s, 'me', %s, 'DLQ', %s, 'it broke', 3, %s, now() - make_interval(hours => %s),
                       '{"path": "a.csv"}')""",
                [row[0], f"{kind}-{each}", kind, each, f"{RUN}:host:1:ab12cd", hours],
            )
    return str(row[1])


def keys(output: str) -> list[str]:
    """The items that a list names."""
    return sorted(line.split("  ")[3] for line in output.splitlines())


def test_found_by_whatever_is_asked(engine: Engine) -> None:
    assert bulk("list") == "no dead letters\n"
    job = letters(engine, "import_users", "permanent", "died")
    letters(engine, "distribution", "permanent", hours=13)
    assert len(keys(bulk("list"))) == 3
    assert len(keys(bulk("list", "--limit", "2"))) == 2
    assert keys(bulk("list", "--job", job)) == ["import_users-died", "import_users-permanent"]
    assert keys(bulk("list", "--kind", "distribution")) == ["distribution-permanent"]
    assert keys(bulk("list", "--error-class", "died")) == ["import_users-died"]
    assert keys(bulk("list", "--older-than", "12h")) == ["distribution-permanent"]
    assert keys(bulk("list", "--error-class", "permanent", "--kind", "import_users")) == ["import_users-permanent"]
    assert "'lost' is none of" in bulk("list", "--error-class", "lost", code=1)


def test_one_says_what_why_how_often_and_in_which_run(engine: Engine) -> None:
    job = letters(engine, "import_users", "permanent")
    line = bulk("list").strip()
    assert job in line
    assert line.endswith("import_users-permanent  permanent, 3 tries, run 0d1c2b3a: it broke")
    shown = dict(line.split(maxsplit=1) for line in bulk("show", line.split()[0]).splitlines() if " " in line.strip())
    assert (shown["item_key"], shown["error_class"], shown["error_message"]) == (
        "import_users-permanent",
        "permanent",
        "it broke",
    )
    assert (shown["attempt_count"], shown["dagster_run_id"], shown["input"]) == ("3", RUN, "{'path': 'a.csv'}")


def test_tried_again_or_discarded_by_whatever_is_asked(engine: Engine) -> None:
    letters(engine, "import_users", "permanent", "died")
    letters(engine, "distribution", "permanent", "died", hours=13)
    assert bulk("redrive", "--kind", "distribution", "--error-class", "died") == "1 item is tried again\n"
    assert len(keys(bulk("list"))) == 3
    assert "not everything at once" in bulk("discard", "--yes", code=1)
    assert bulk("discard", "--yes", "--older-than", "12h") == "1 item is discarded\n"
    assert keys(bulk("list")) == ["import_users-died", "import_users-permanent"]
    with transaction(engine) as connection:
        states = connection.execute("SELECT kind, status::text, run_wanted FROM job ORDER BY kind").fetchall()
    assert states == [("distribution", "RUNNING", True), ("import_users", "FAILED", True)]


def test_those_of_cancelled_jobs_stay_and_are_named(engine: Engine) -> None:
    cancelled = letters(engine, "import_users", "permanent", "died")
    letters(engine, "distribution", "permanent")
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET status = 'CANCELLED' WHERE job_key = %s", [cancelled])
    said = bulk("redrive").splitlines()
    assert said[0] == "1 item is tried again"
    assert said[1] == f"2 stay, their jobs are cancelled (bulk dlq discard --job …): {cancelled}"
    assert f"job {cancelled} is CANCELLED" in bulk("redrive", "--job", cancelled, code=1)


@pytest.mark.parametrize("command", [["list"], ["redrive"], ["redrive", "--not-found"], ["discard", "--yes"]])
def test_a_job_that_does_not_exist_is_said_to_be_missing(engine: Engine, command: list[str]) -> None:
    letters(engine, "import_users", "permanent")
    assert "no job has the key 'J00000000_000000'" in bulk(*command, "--job", "J00000000_000000", code=1)
