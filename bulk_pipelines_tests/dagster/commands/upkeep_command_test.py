"""`bulk sweep`, `bulk finalize` and `bulk prune`, as a person runs them, on an installation that is not up."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from bulk_pipelines.cli import main
from bulk_pipelines.database import advisory
from bulk_pipelines.database.pool import transaction

pytestmark = pytest.mark.long


@pytest.fixture
def installation(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BULK_HOME", str(tmp_path))
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    return tmp_path


def bulk(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def told(result: Result) -> dict[str, str]:
    """Return the table that the command printed: what was done, and how often."""
    assert result.exit_code == 0, result.output
    rows = [line.rsplit("  ", maxsplit=1) for line in result.stdout.splitlines()]
    return {name.strip(): count.strip() for name, count in rows}


def job(engine: Engine, *, status: str, days: int | None = None, rejects: int = 0) -> str:
    with transaction(engine) as connection:
        row = connection.execute(
            """INSERT INTO job (kind, owner, origin, request_hash, status, started_at, planned_at, finished_at,
                   run_wanted, heartbeat_at, created_at, result)
               VALUES ('distribution', 'me', 'cli', '', %s, now(), now(), now() - make_interval(days => %s), false,
                   now() - interval '1 hour', now() - interval '1 hour', '{}')
               RETURNING job_id, job_key""",
            [status, days],
        ).fetchone()
        assert row is not None
        connection.execute(
            "INSERT INTO rejected_row (job_id, line, raw, reasons)"
            """ SELECT %s, line, 'x', '[{"code": "bad"}]' FROM generate_series(1, %s) AS line""",
            [row[0], rejects],
        )
    return str(row[1])


def test_the_passes_say_what_they_did(engine: Engine, installation: Path) -> None:
    key = job(engine, status="RUNNING")
    landed = installation / "landed" / job(engine, status="COMPLETED", days=400, rejects=5) / "000001"
    landed.parent.mkdir(parents=True)
    landed.write_text("x")

    dry = told(bulk("prune", "--dry-run"))
    assert done_of(dry) == {"prune": "would go", "rejects": "5", "landed files": "1", "jobs": "1"}
    assert landed.exists()
    wet = told(bulk("prune"))
    assert done_of(wet) == {"prune": "gone", "rejects": "5", "landed files": "1", "jobs": "1"}
    assert list(wet) == list(dry)
    assert {"items", "drops in the ledger", "partition keys", "Dagster runs"} < set(wet), "what was 0 is said, too"
    assert not landed.exists()

    assert told(bulk("finalize")) == {"finalize": "done", "jobs ended": "1", "jobs wound up": "0"}
    with transaction(engine) as connection:
        assert connection.execute("SELECT job_key, status::text FROM job").fetchall() == [(key, "COMPLETED")]

    job(engine, status="RUNNING")
    with transaction(engine) as connection:
        connection.execute("UPDATE job SET planned_at = NULL WHERE status = 'RUNNING'")
    swept = told(bulk("sweep"))
    assert done_of(swept) == {"sweep": "done", "jobs to be launched again": "1"}


def done_of(table: dict[str, str]) -> dict[str, str]:
    return {name: count for name, count in table.items() if count != "0"}


def test_a_pass_that_cannot_be_is_one_line(engine: Engine, installation: Path) -> None:
    with advisory.held(engine, "bulk_pipelines.prune"):
        done = bulk("prune")
    assert (done.exit_code, done.output) == (1, "Error: another retention pass is at work\n")


def test_what_could_not_be_gone_through_is_said_and_the_exit_code_is_not_0(
    engine: Engine, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_LANDING_URL", "http://127.0.0.1:1/landed")
    done = bulk("prune")
    assert done.exit_code == 1
    assert "is a web address: it can only be read" in done.output
    assert "jobs: kept until this can be gone through: landed files" in done.output
