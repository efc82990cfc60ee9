"""Retention on a table of a million finished items, while a real worker drains a job beside it."""

import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Done
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.work import Slice
from bulk_pipelines.maintenance import retention
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.long

JOBS = 5
ITEMS_EACH = 200_000
LEAST_SHARE = 0.25
"""The share of the rate without retention that must be left: retention may take its part of two processors, and must
not stop the work."""
LONGEST_STANDSTILL = 5.0

KINDS = Kinds([Kind("noop", lambda lease, tools: Done({}), slices=SliceLimits(first_claim=500))])


def old_job(engine: Engine, status: str, item_status: str, items: int) -> int:
    """Insert a job that began 40 days ago, and that was over at once if its state says so. Return its id."""
    counter = {"SUCCEEDED": "succeeded_items", "PENDING": "pending_items", "RETRY_WAIT": "retry_wait_items"}[
        item_status
    ]
    with transaction(engine) as connection:
        row = connection.execute(
            f"""INSERT INTO job (kind, owner, origin, request_hash, status, created_at, started_at, planned_at,
                   finished_at, total_items, {counter})
               SELECT 'noop', 'me', 'api', '', %(status)s::job_status, begun, begun, begun,
                   CASE WHEN %(over)s THEN begun END, %(items)s, %(items)s
               FROM (SELECT now() - interval '40 days') AS long_ago (begun)
               RETURNING job_id""",
            {"status": status, "over": status == "COMPLETED", "items": items},
        ).fetchone()
        assert row is not None
        connection.execute(
            """INSERT INTO job_item (job_id, item_key, owner, kind, status, due_at, input, updated_at)
               SELECT %(job)s, n::text, 'me', 'noop', %(status)s::item_status,
                   CASE WHEN %(status)s::item_status = 'RETRY_WAIT' THEN now() + interval '1 day' END,
                   jsonb_build_object('n', n), now() - interval '40 days'
               FROM generate_series(1, %(items)s) AS n""",
            {"job": row[0], "status": item_status, "items": items},
        )
    return int(row[0])


def noop_job(engine: Engine, items: int) -> Job:
    with transaction(engine) as connection:
        job = submission.submit(connection, KINDS, submission.Request("noop", "me", {})).job
        persist.copy_all(connection, job.job_id, persist.checked((str(n), {"n": n}) for n in range(items)))
        return jobs.start(connection, job.job_key)


def counts(engine: Engine) -> dict[int, int]:
    with transaction(engine) as connection:
        return dict(connection.execute("SELECT job_id, count(*) FROM job_item GROUP BY 1").fetchall())


@dataclass
class Watched:
    """A record of how many items were done, and when."""

    seen: list[tuple[float, int]] = field(default_factory=list)

    def note(self, slice_: Slice) -> None:
        self.seen.append((time.monotonic(), slice_.tally.total))

    def until(self) -> float:
        return self.seen[-1][0] if self.seen else 0.0

    def rate(self, begin: float, end: float) -> float:
        return sum(count for at, count in self.seen if begin < at <= end) / (end - begin)

    def longest_standstill(self, begin: float, end: float) -> float:
        moments = [begin, *(at for at, _ in self.seen if begin < at <= end), end]
        return max(later - earlier for earlier, later in pairwise(moments))


def test_a_million_finished_items_go_while_work_goes_on(engine: Engine) -> None:
    finished = [old_job(engine, "COMPLETED", "SUCCEEDED", ITEMS_EACH) for _ in range(JOBS)]
    paused = old_job(engine, "PAUSED", "PENDING", 1_000)
    at_work = old_job(engine, "RUNNING", "RETRY_WAIT", 1_000)
    drained = noop_job(engine, 1_500_000)
    with transaction(engine) as connection:
        connection.execute(
            """CREATE TABLE removal (count bigint, at timestamptz DEFAULT clock_timestamp());
               CREATE FUNCTION note_removal() RETURNS trigger LANGUAGE plpgsql AS
                   $$BEGIN INSERT INTO removal SELECT count(*) FROM gone; RETURN NULL; END$$;
               CREATE TRIGGER noted AFTER DELETE ON job_item REFERENCING OLD TABLE AS gone
                   FOR EACH STATEMENT EXECUTE FUNCTION note_removal()"""
        )
    watched = Watched()
    with Worker(engine, KINDS, drained) as worker:
        thread = threading.Thread(target=drain.drain, args=(worker,), kwargs={"on_slice": watched.note})
        thread.start()
        began = time.monotonic()
        until(lambda: watched.until() > began + 8, "it has worked for a while", 60)
        told = retention.prune_items(engine, Settings(), True)
        pruning = time.monotonic()
        assert retention.prune_items(engine, Settings(), False) == told == JOBS * ITEMS_EACH
        pruned = time.monotonic()
        assert thread.is_alive(), "there was work all the time"
        worker.stop()
        thread.join()
    before, during = watched.rate(began + 2, began + 8), watched.rate(pruning, pruned)
    standstill = watched.longest_standstill(pruning, pruned)
    print(
        f"\n{told:,} items in {pruned - pruning:.1f} s; work: {before:,.0f}/s before, {during:,.0f}/s during, "
        f"longest standstill {standstill:.2f} s"
    )
    assert during > LEAST_SHARE * before
    assert standstill < LONGEST_STANDSTILL
    with transaction(engine) as connection:
        removed = connection.execute("SELECT max(count), sum(count) FROM removal").fetchone()
    assert removed == (retention.BATCH, JOBS * ITEMS_EACH), "in bounded transactions"
    left = counts(engine)
    assert set(left).isdisjoint(finished)
    assert (left[paused], left[at_work], left[drained.job_id]) == (1_000, 1_000, 1_500_000)
    with transaction(engine) as connection:
        job = jobs.find(connection, drained.job_key)
    done = sum(count for _, count in watched.seen)
    assert job.succeeded_items >= done > 0
    assert job.succeeded_items + job.open_items == 1_500_000
