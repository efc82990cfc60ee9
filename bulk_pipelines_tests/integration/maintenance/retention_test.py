"""Retention on a real database: what goes, what stays, and that it goes in bounded pieces."""

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import advisory
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import Conflict, Unavailable
from bulk_pipelines.maintenance import retention
from bulk_pipelines.maintenance.retention import Part, Pruned, Step
from bulk_pipelines.settings import Settings

CHOSEN = Settings(keep_items_days=30, keep_jobs_days=365)


def job(engine: Engine, *, days_over: int | None, items: int) -> str:
    """Insert a job with its items that has been over for so many days; None: it is still at work."""
    with transaction(engine) as connection:
        row = connection.execute(
            """INSERT INTO job (kind, owner, origin, request_hash, status, started_at, planned_at, finished_at,
                   total_items, succeeded_items, pending_items)
               VALUES ('echo', 'me', 'api', '', %(status)s, now(), now(), now() - make_interval(days => %(days)s),
                   %(items)s, %(done)s, %(items)s - %(done)s)
               RETURNING job_id, job_key""",
            {
                "status": "RUNNING" if days_over is None else "COMPLETED",
                "days": days_over,
                "items": items,
                "done": 0 if days_over is None else items,
            },
        ).fetchone()
        assert row is not None
        connection.execute(
            """INSERT INTO job_item (job_id, item_key, owner, kind, status)
               SELECT %s, g::text, 'me', 'echo', %s FROM generate_series(1, %s) AS g""",
            [row[0], "PENDING" if days_over is None else "SUCCEEDED", items],
        )
    return str(row[1])


def left(engine: Engine) -> dict[str, int]:
    with transaction(engine) as connection:
        return dict(
            connection.execute(
                "SELECT job_key, count(item_id) FROM job LEFT JOIN job_item USING (job_id) GROUP BY job_key"
            ).fetchall()
        )


def test_old_items_go_first_and_old_jobs_later(engine: Engine) -> None:
    fresh, old = job(engine, days_over=3, items=10), job(engine, days_over=40, items=10)
    ancient, open_one = job(engine, days_over=400, items=10), job(engine, days_over=None, items=10)
    assert retention.run_once(engine, CHOSEN, [], dry_run=True) == [Pruned("items", 20), Pruned("jobs", 1)]
    assert left(engine) == {fresh: 10, old: 10, ancient: 10, open_one: 10}
    assert retention.run_once(engine, CHOSEN, []) == [Pruned("items", 20), Pruned("jobs", 1)]
    assert left(engine) == {fresh: 10, old: 0, open_one: 10}
    assert retention.run_once(engine, CHOSEN, []) == [Pruned("items", 0), Pruned("jobs", 0)]


def test_a_transaction_removes_a_bounded_number(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 7)
    key = job(engine, days_over=40, items=50)
    with transaction(engine) as connection:
        connection.execute(
            """CREATE TABLE removals (count bigint);
               CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
                   $$BEGIN INSERT INTO removals SELECT count(*) FROM gone; RETURN NULL; END$$;
               CREATE TRIGGER noted AFTER DELETE ON job_item REFERENCING OLD TABLE AS gone
                   FOR EACH STATEMENT EXECUTE FUNCTION note()"""
        )
    assert retention.run_once(engine, CHOSEN, [])[0] == Pruned("items", 50)
    with transaction(engine) as connection:
        assert connection.execute("SELECT max(count), sum(count) FROM removals").fetchone() == (7, 50)
    assert left(engine) == {key: 0}


def test_a_pass_says_how_far_it_is(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 20)
    job(engine, days_over=40, items=20)
    job(engine, days_over=40, items=30)
    told: list[Step] = []
    retention.run_once(engine, CHOSEN, [Part("files", lambda *_: 0)], told=told.append)
    assert told == [
        Step("items", 1, 3),
        *(Step("items", 1, 3, removed, 50) for removed in (20, 40, 50)),
        Step("files", 2, 3),
        Step("jobs", 3, 3),
    ]


def test_the_parts_of_slices_are_pruned_before_the_jobs(engine: Engine) -> None:
    job(engine, days_over=400, items=1)
    seen: list[int] = []

    def part(pool: Engine, chosen: Settings, dry_run: bool) -> int:
        seen.append(len(left(pool)))
        return 5

    assert retention.run_once(engine, CHOSEN, [Part("rejects", part)])[1] == Pruned("rejects", 5)
    assert seen == [1]


def test_a_part_that_fails_keeps_only_the_jobs(engine: Engine) -> None:
    """Jobs wait until all parts have been gone through, because the parts are found by their jobs."""
    key, fine = job(engine, days_over=400, items=1), Part("fine", lambda pool, chosen, dry_run: 3)

    def failing(pool: Engine, chosen: Settings, dry_run: bool) -> int:
        raise Unavailable("the storage is down")

    done = retention.run_once(engine, CHOSEN, [Part("files", failing), fine])
    assert done == [
        Pruned("items", 1),
        Pruned("files", 0, "the storage is down"),
        Pruned("fine", 3),
        Pruned("jobs", 0, "kept until this can be gone through: files"),
    ]
    assert left(engine) == {key: 0}
    assert retention.run_once(engine, CHOSEN, [fine])[-1] == Pruned("jobs", 1)


def test_one_pass_at_a_time(engine: Engine) -> None:
    with advisory.held(engine, "bulk_pipelines.prune"), pytest.raises(Conflict, match="another retention pass"):
        retention.run_once(engine, CHOSEN, [])


def test_a_redrive_and_retention_that_meet(engine: Engine) -> None:
    """Whichever comes first: what is taken back to work is not removed, and nobody waits for the other in a circle."""
    key = job(engine, days_over=40, items=10)
    with transaction(engine) as connection:
        connection.execute(
            "UPDATE job_item SET status = 'DLQ', error_message = 'bad' WHERE item_key::int <= 4;"
            " UPDATE job SET dlq_items = 4, succeeded_items = 6"
        )
    with transaction(engine) as connection:
        # A redrive in the middle of its statement: it has the items, and is about to take the job.
        connection.execute("UPDATE job_item SET status = 'PENDING' WHERE status = 'DLQ'")
        assert retention.prune_items(engine, CHOSEN, False) == 6
        connection.execute("UPDATE job SET status = 'RUNNING', finished_at = NULL, dlq_items = 0, pending_items = 4")
    assert retention.prune_items(engine, CHOSEN, False) == 0
    assert left(engine) == {key: 4}
