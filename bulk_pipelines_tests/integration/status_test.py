"""The overview: counts from the jobs, workers from the leases."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines import status
from bulk_pipelines.cli import main
from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes.installation import made

JOBS = """
    INSERT INTO job (kind, owner, origin, request_hash, status, planned_at, started_at, finished_at,
                     total_items, pending_items, running_items, retry_wait_items, succeeded_items, dlq_items)
    VALUES
        ('import', 'o', 'cli', '', 'RUNNING', now(), now(), NULL, 10, 3, 2, 1, 4, 0),
        ('import', 'o', 'cli', '', 'RUNNING', now(), now(), NULL, 5, 5, 0, 0, 0, 0),
        ('import', 'o', 'cli', '', 'PAUSED', now(), now(), NULL, 7, 7, 0, 0, 0, 0),
        ('export', 'o', 'cli', '', 'COMPLETED_WITH_ERRORS', now(), now(), now(), 3, 0, 0, 0, 2, 1)
"""

LEASES = """
    WITH held AS (
        INSERT INTO job_item (job_id, item_key, owner, kind, lease_owner, lease_until, leased_at, claim_id,
            attempt_count, lease_term)
        SELECT (SELECT min(job_id) FROM job), 'i' || n, 'o', 'import', 'worker ' || n % 2,
            now() + CASE n WHEN 1 THEN interval '-5 seconds' ELSE interval '50 seconds' END, now(), n % 2, 1, 1
        FROM generate_series(1, 4) AS n
        RETURNING *
    )
    INSERT INTO claim (claim_id, job_id, owner, item_ids, look_at)
    SELECT claim_id, job_id, lease_owner, array_agg(item_id), min(lease_until) FROM held
    GROUP BY claim_id, job_id, lease_owner
"""


def test_an_empty_database(database_url: str) -> None:
    assert status.shown(status.read(database_url)) == "no jobs yet"


def test_jobs_queue_and_workers(engine: Engine, database_url: str) -> None:
    with pool.transaction(engine) as connection:
        connection.execute(JOBS)
        connection.execute(LEASES)
    now = status.read(database_url)
    assert [(each.kind, each.status, each.jobs, each.items) for each in now.jobs] == [
        ("export", "COMPLETED_WITH_ERRORS", 1, 3),
        ("import", "RUNNING", 2, 15),
        ("import", "PAUSED", 1, 7),
    ]
    assert (now.ready, now.waiting) == (8, 1)
    assert [(each.worker, each.items, each.expired) for each in now.workers] == [("worker 0", 2, 0), ("worker 1", 1, 1)]
    done = CliRunner().invoke(main, ["status"], env={"BULK_DATABASE_URL": database_url})
    assert done.exit_code == 0
    assert "queue: 8 items ready, 1 waiting for their next attempt" in done.output
    assert done.output.splitlines()[2].split() == ["import", "RUNNING", "2", "15", "8", "2", "1", "4", "0", "0"]


def test_jobs_whose_table_is_declared_no_more(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_RESOURCES", str(tmp_path))
    with pool.transaction(engine) as connection:
        for kind, state in (("import_users", "RUNNING"), ("import_goods", "RUNNING"), ("export_goods", "COMPLETED")):
            connection.execute(
                "INSERT INTO job (kind, owner, origin, request_hash, status, planned_at, started_at, finished_at)"
                " VALUES (%s, 'o', 'cli', '', %s, now(), now(), CASE %s WHEN 'COMPLETED' THEN now() END)",
                [kind, state, state],
            )
    told = status.shown(status.read(database_url))
    assert f"\nimport_goods: no table is declared for it in {tmp_path}: where it is declared, its jobs" in told
    assert told.count("no table is declared") == 1
    (tmp_path / "broken.toml").write_text("what = ")
    assert "\ndeclarations cannot be read: " in status.shown(status.read(database_url))


def test_a_schema_that_is_not_there_yet(empty_database_url: str) -> None:
    done = CliRunner().invoke(main, ["status"], env={"BULK_DATABASE_URL": empty_database_url})
    assert (done.exit_code, done.output) == (
        1,
        "Error: the database's schema is not up to date: run `bulk migrate`\n",
    )


def test_the_embedded_database_is_migrated_as_by_every_other_command() -> None:
    with made() as installation:
        done = installation.bulk("status")
        assert (done.returncode, done.stdout, done.stderr) == (0, "no jobs yet\n", "")
