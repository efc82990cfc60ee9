"""The time that a claim of 100 items takes, with 10 thousand and with 2 million items in the table, most of them
finished.

Half of the finished items belong to the job that is claimed from, half to ten other jobs. The claimed items are then
settled, as a worker does. Only the claim is timed: its statement and the reading of its rows, without the commit, whose
wait for the disk would hide a difference. The two tables take turns, and the small one is made anew for each round.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median

from benchmarks import measure
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.engine.items import leases, settling
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.states import ItemEvent
from bulk_pipelines.engine.worker.retry import Settlement

SMALL, LARGE = 10_000, 2_000_000
CLAIM = 100
CLAIMS = 40
WARM_UP = 10
"""How many claims each table gets in a round before the clock runs: after them, the statement is prepared and the
caches are warm."""
ROUNDS = 5

JOBS = """
INSERT INTO job (kind, owner, origin, request_hash, status, started_at, total_items, pending_items, succeeded_items)
SELECT 'no-op', 'bench', 'cli', '', 'RUNNING', now(), pending + finished, pending, finished
FROM (
    SELECT CASE WHEN number = 0 THEN %(pending)s ELSE 0 END AS pending,
        CASE WHEN number = 0 THEN %(finished)s / 2 ELSE %(finished)s / 20 END AS finished
    FROM generate_series(0, 10) AS number
) AS shares
RETURNING job_id
"""
ITEMS = """
INSERT INTO job_item (job_id, item_key, owner, kind, input, status, attempt_count, lease_term, result, updated_at)
SELECT job_id, part.state || ' ' || number, 'bench', 'no-op', jsonb_build_object('n', number), part.state, part.tries,
    part.tries, part.result, now() - interval '1 day' + number * interval '10 milliseconds'
FROM job
CROSS JOIN LATERAL (
    VALUES ('SUCCEEDED'::item_status, 1, '{"n": 1}'::jsonb, succeeded_items), ('PENDING', 0, NULL, pending_items)
) AS part (state, tries, result, items)
CROSS JOIN LATERAL generate_series(1, part.items) AS number
"""


def filled(running: Server, stack: ExitStack, items: int, pending: int) -> Callable[[], float]:
    """Make a table of so many items. Return a function that claims from it once and returns the milliseconds that
    took."""
    url = stack.enter_context(measure.database(running))
    with pool.single(url) as connection:
        rows = connection.execute(JOBS, {"pending": pending, "finished": items - pending}).fetchall()
        connection.execute(ITEMS)
    measure.settle_down(url)
    job_id = int(rows[0][0])
    connection = stack.enter_context(pool.single(url))

    def claim() -> float:
        with connection.transaction():
            begun = time.perf_counter()
            claimed = leases.claim(connection, job_id, owner="bench", most=CLAIM, lease_seconds=60)
            seconds = time.perf_counter() - begun
        assert len(claimed) == CLAIM
        settling.write(connection, job_id, [settled(lease) for lease in claimed])
        return seconds * 1_000

    return claim


def settled(lease: Lease) -> Settled:
    return Settled(lease.item_id, lease.lease_term, Settlement(ItemEvent.SUCCEED, result=lease.input))


def main() -> None:
    large: list[float] = []
    small: list[float] = []
    with measure.server() as running, ExitStack() as stack:
        fill = partial(filled, running)
        claim_large = fill(stack, LARGE, CLAIM * CLAIMS * ROUNDS)
        for _ in range(ROUNDS):
            with ExitStack() as once:
                in_large, in_small = measure.in_turns([claim_large, fill(once, SMALL, CLAIM * CLAIMS)], CLAIMS)
            large += in_large[WARM_UP:]
            small += in_small[WARM_UP:]
    measure.show(f"{LARGE:,} items", large, "ms")
    measure.show(f"{SMALL:,} items", small, "ms")
    measure.report("claim-scale", median(large), median(small), "ms")


if __name__ == "__main__":
    main()
