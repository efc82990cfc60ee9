"""The time of page 1 and of page 5,000 of a listing by key, a hundred items a page, of a job with 602,000 items in all
states.

The benchmark walks from page to page, as a reader does, to where page 5,000 begins; then it reads both in turns.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import psycopg

from benchmarks import measure
from bulk_pipelines.database import pool
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.items.pages import Page
from bulk_pipelines.engine.states import ItemState

SIZE = 100
DEPTH = 5_000
ITEMS = 602_000
ROUNDS = 300

Connection = psycopg.Connection[Any]

# The states are mixed evenly, so at any depth each of them has rows to give. Two workers hold one of 43 of the
# pending items, which makes these RUNNING.
FILL = """
WITH states AS (
    SELECT array_agg(state ORDER BY state) AS each
    FROM unnest(enum_range(NULL::item_status)) AS state WHERE state <> 'RUNNING'
),
new_job AS (
    INSERT INTO job (kind, owner, origin, request_hash, status, started_at, total_items, pending_items, running_items,
        succeeded_items, not_found_items, skipped_items, retry_wait_items, dlq_items, cancelled_items)
    SELECT 'no-op', 'bench', 'cli', '', 'RUNNING', now(), %(items)s, share - held, held, share, share, share, share,
        share, share
    FROM (SELECT %(items)s / 7 AS share, %(items)s / 301 AS held) AS shares
    RETURNING job_id, job_key
),
items AS (
    INSERT INTO job_item (job_id, item_key, owner, kind, input, status, updated_at, due_at, error_message,
        lease_owner, lease_until, leased_at, claim_id)
    SELECT job_id, 'item ' || number, 'bench', 'no-op', jsonb_build_object('n', number), state, moment,
        CASE WHEN state = 'RETRY_WAIT' THEN now() END, CASE WHEN state = 'DLQ' THEN 'buried' END,
        CASE WHEN held THEN 'worker ' || claim_id END, CASE WHEN held THEN now() + interval '1 day' END,
        CASE WHEN held THEN moment END, CASE WHEN held THEN claim_id END
    FROM new_job, states, generate_series(1, %(items)s) AS number
    CROSS JOIN LATERAL (
        SELECT states.each[number %% 7 + 1] AS state,
            now() - interval '1 day' + number * interval '10 milliseconds' AS moment, number / 7 %% 2 + 1 AS claim_id
    ) AS made
    CROSS JOIN LATERAL (SELECT state = 'PENDING' AND number / 7 %% 43 = 0 AS held) AS which
    RETURNING item_id, job_id, claim_id, lease_owner, lease_until
),
claims AS (
    INSERT INTO claim (claim_id, job_id, owner, item_ids, look_at)
    SELECT claim_id, job_id, lease_owner, array_agg(item_id), min(lease_until) FROM items
    WHERE lease_until IS NOT NULL GROUP BY claim_id, job_id, lease_owner
)
SELECT job_key FROM new_job
"""


def page(connection: Connection, job_key: str, after: str | None) -> Page:
    return pages.of_job(connection, job_key, statuses=ItemState, size=SIZE, after=after)


def walked(connection: Connection, job_key: str) -> str:
    """Return the cursor of page 5,000, and check that no item comes twice on the way there."""
    seen: set[int] = set()
    after: str | None = None
    for number in range(1, DEPTH):
        shown = page(connection, job_key, after)
        seen.update(item.item_id for item in shown.items)
        assert len(seen) == number * SIZE
        after = shown.after
    assert after is not None
    return after


def main() -> None:
    with measure.server() as running, measure.database(running) as url:
        with pool.single(url) as connection:
            row = connection.execute(FILL, {"items": ITEMS}).fetchone()
            assert row is not None
            job_key = str(row[0])
        measure.settle_down(url)
        with pool.single(url) as connection:
            deep = walked(connection, job_key)

            def reading(after: str | None) -> Callable[[], float]:
                def measured() -> float:
                    begun = time.perf_counter()
                    shown = page(connection, job_key, after)
                    seconds = time.perf_counter() - begun
                    assert len(shown.items) == SIZE
                    return seconds * 1000

                return measured

            last, first = measure.in_turns([reading(deep), reading(None)], ROUNDS)
    measure.show(f"page {DEPTH:,}", last, "ms")
    measure.show("page 1", first, "ms")
    measure.report("page-depth", median(last), median(first), "ms")


if __name__ == "__main__":
    main()
