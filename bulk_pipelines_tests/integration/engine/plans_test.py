"""The plans of the queries that run all the time, on a million items: their indexes, and a bounded number of pages.

With whatever the statistics say, or do not say: they are never right about columns that change with every item's step.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.engine.items import settling
from bulk_pipelines.engine.items.cursors import EPOCH
from bulk_pipelines.engine.items.pages import NEVER
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.states import JOB_MOVES, OPEN_ITEMS, ItemEvent, ItemState, JobEvent, sources
from bulk_pipelines.engine.worker.retry import Settlement
from bulk_pipelines.errors import ErrorClass
from bulk_pipelines_tests.scenes import databases
from bulk_pipelines_tests.scenes.engine_jobs import running
from bulk_pipelines_tests.scenes.query_plans import Plan
from bulk_pipelines_tests.scenes.waiting import until

pytestmark = pytest.mark.long

ROWS = 1_000_000
JOBS = 20
"""The first has half of the items."""
GROUPS = 21 * 2
"""How many groups of owners and kinds there are. One owner has nearly all items."""

BATCH = 500
HELD = 2_000
"""Items that workers hold, of all jobs: two workers' claims. What looks for lost ones among them reads them all."""
EXPIRED = 400
PER_ITEM = 60
"""Pages touched to find an item, write it, and keep six indexes."""
ALWAYS = 400
"""Pages touched whatever the size of a batch, the catalog's among them."""

SITUATIONS = [
    "never analyzed",
    "analyzed while all were pending",
    "analyzed while all were held",
    "analyzed when most were finished",
]

FILL = """
INSERT INTO job_item (job_id, item_key, owner, kind, input)
SELECT %(first)s + CASE WHEN n %% 2 = 0 THEN 0 ELSE n / 2 %% (%(jobs)s - 1) + 1 END, 'k' || n,
    CASE WHEN n %% 50 = 0 THEN 'other' || n / 50 %% 20 ELSE 'me' END, CASE WHEN n %% 3 = 0 THEN 'play' ELSE 'work' END,
    jsonb_build_object('n', n, 'name', md5(n::text))
FROM generate_series(1, %(rows)s) AS n
"""

HOLD_ALL = "UPDATE job_item SET lease_until = now(), leased_at = now(), lease_owner = 'w', claim_id = 0"

OLDEST_RUNNING = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

# Of each job: most are finished, some wait, some are held by workers, a few are buried.
WORK_ON = """
UPDATE job_item SET
    status = (CASE
        WHEN item_id %% 100 < 90 THEN 'SUCCEEDED' WHEN item_id %% 100 < 94 THEN 'PENDING'
        WHEN item_id %% 100 < 97 THEN 'RETRY_WAIT' WHEN item_id %% 1000 IN (997, 998) THEN 'PENDING'
        WHEN item_id %% 100 < 99 THEN 'SUCCEEDED' ELSE 'DLQ'
    END)::item_status,
    lease_term = 1, attempt_count = 1, lease_owner = 'w',
    lease_until = CASE WHEN item_id %% 1000 IN (997, 998) THEN now() + interval '1 hour' END,
    leased_at = CASE WHEN item_id %% 1000 IN (997, 998) THEN updated_at + make_interval(secs => item_id / 1000.0) END,
    claim_id = -job_id,
    due_at = CASE WHEN item_id %% 100 IN (94, 95, 96) THEN now() - make_interval(secs => item_id %% 1000) END,
    error_message = CASE WHEN item_id %% 100 = 99 THEN 'bad' END,
    updated_at = updated_at + make_interval(secs => item_id / 1000.0)
"""

COUNT = """
UPDATE job SET total_items = counted.total, pending_items = counted.pending, succeeded_items = counted.succeeded,
    retry_wait_items = counted.waiting, running_items = counted.running, dlq_items = counted.dlq
FROM (
    SELECT job_id, count(*) AS total, count(*) FILTER (WHERE item.state = 'PENDING') AS pending,
        count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
        count(*) FILTER (WHERE status = 'RETRY_WAIT') AS waiting,
        count(*) FILTER (WHERE item.state = 'RUNNING') AS running, count(*) FILTER (WHERE status = 'DLQ') AS dlq
    FROM job_item AS item GROUP BY job_id
) AS counted WHERE counted.job_id = job.job_id
"""

CLAIMS = """
INSERT INTO claim (claim_id, job_id, owner, item_ids, look_at)
SELECT claim_id, job_id, 'w', array_agg(item_id ORDER BY item_id), now() - interval '1 second'
FROM job_item WHERE lease_until IS NOT NULL GROUP BY claim_id, job_id
"""


class Filled:
    """A database with a million items, and the ids that the queries ask for."""

    def __init__(self, url: str) -> None:
        self.url = url
        with pools.single(url) as connection:
            self.job_id = one(connection, "SELECT min(job_id) FROM job")
            self.quiet_job_id = self.job_id + 1
            connection.execute(
                "UPDATE job_item SET due_at = now() + interval '1 day' WHERE job_id = %s AND status = 'RETRY_WAIT'",
                [self.quiet_job_id],
            )
            connection.execute(
                "UPDATE job_item SET lease_until = now() - interval '1 second' WHERE item_id = ANY (ARRAY("
                " SELECT item_id FROM job_item WHERE lease_until IS NOT NULL AND job_id = ANY (%s) LIMIT %s))",
                [[self.job_id, self.quiet_job_id], EXPIRED],
            )
            held = connection.execute(
                "SELECT item_id FROM job_item WHERE lease_until IS NOT NULL AND job_id = %s"
                " ORDER BY item_id DESC LIMIT %s",
                [self.job_id, BATCH],
            ).fetchall()
            self.held = [item_id for (item_id,) in held]
            deep = connection.execute(
                "SELECT updated_at, item_id FROM job_item WHERE job_id = %s AND status = 'SUCCEEDED'"
                " ORDER BY updated_at, item_id OFFSET 200000 LIMIT 1",
                [self.job_id],
            ).fetchone()
        assert deep is not None
        assert len(self.held) == BATCH
        self.deep_time, self.deep_id = deep


def one(connection: psycopg.Connection[Any], query: str) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(scope="module", params=SITUATIONS)
def filled(request: pytest.FixtureRequest, server: Server, template: str) -> Iterator[Filled]:
    with databases.fresh(server, template) as url:
        made = pools.connect(url, application="test")
        jobs = [running(made, 0) for _ in range(JOBS)]
        with pools.single(url) as connection:
            for table in ("job", "job_item"):
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
            connection.execute("SET synchronous_commit = off")
            indexes = connection.execute(
                "SELECT indexname, indexdef FROM pg_indexes"
                " WHERE tablename = 'job_item' AND indexdef NOT LIKE '%UNIQUE%'"
            ).fetchall()
            connection.execute(f"DROP INDEX {', '.join(name for name, _ in indexes)}")
            connection.execute(FILL, {"first": jobs[0].job_id, "jobs": JOBS, "rows": ROWS})
            if request.param == "analyzed while all were held":
                connection.execute(
                    "UPDATE job_item SET lease_until = now(), leased_at = now(), lease_owner = 'w', claim_id = 0"
                )
            if request.param.startswith("analyzed while all"):
                connection.execute("ANALYZE job_item")
            connection.execute(WORK_ON, {})
            connection.execute(CLAIMS)
            # While a transaction runs that is older, in any database of the server that this test shares with others,
            # new indexes get the old versions of rows as well, and no plan takes such an index.
            written = one(connection, "SELECT pg_current_xact_id()::text::bigint")
            until(lambda: one(connection, OLDEST_RUNNING) > written, "all older transactions are over", 120)
            for _, definition in indexes:
                connection.execute(definition)
            connection.execute(COUNT)
            if request.param == "analyzed when most were finished":
                connection.execute("ANALYZE job_item")
            analyzed = one(connection, "SELECT count(*) FROM pg_stats WHERE tablename = 'job_item'")
            assert (analyzed == 0) == (request.param == "never analyzed")
        made.dispose()
        yield Filled(url)


@dataclass(frozen=True)
class Expected:
    file: str
    name: str
    values: Callable[[Filled], dict[str, Any]]
    indexes: set[str]
    items: int
    """How many items it is about: what it may touch goes by this, never by the size of the table."""


def claim(filled: Filled) -> dict[str, Any]:
    return {"job_id": filled.job_id, "owner": "w2", "most": BATCH, "lease_seconds": 60.0, "over": []}


def settlement(filled: Filled, *, rescue: bool) -> dict[str, Any]:
    came = [
        Settlement(ItemEvent.SUCCEED, result={"a": 1}),
        Settlement(ItemEvent.RETRY, delay=1.0, error_class=ErrorClass.DIED, error="x"),
    ]
    batch = [Settled(item_id, 1, came[number % 2]) for number, item_id in enumerate(filled.held)]
    return settling.columns(batch) | {
        "rescue": rescue,
        "job_id": filled.job_id,
        "failable": sources(JOB_MOVES, JobEvent.FAIL),
    }


def held(filled: Filled) -> dict[str, Any]:
    return {"item_ids": filled.held, "lease_terms": [1] * BATCH, "lease_seconds": 60.0}


def one_held(filled: Filled) -> dict[str, Any]:
    return {"item_id": filled.held[0], "lease_term": 1, "checkpoint": "{}", "lease_seconds": 60.0}


def page(filled: Filled, *, deep: bool = False, statuses: Sequence[str] = OPEN_ITEMS) -> dict[str, Any]:
    return {
        "job_id": filled.job_id,
        "owner": "me",
        "kind": None,
        "until": NEVER,
        "after_key": "k" if not deep else "k5",
        "statuses": list(statuses),
        "after_time": filled.deep_time if deep else EPOCH,
        "after_id": filled.deep_id if deep else 0,
        "size": 100,
    }


BY_JOB, BY_OWNER, DUE, KEY = "job_item_by_job", "job_item_by_owner", "job_item_due", "job_item_pkey"

EXPECTED = {
    "claim": Expected("items", "claim_items", claim, {BY_JOB, DUE}, BATCH),
    "claim one": Expected("items", "claim_items", lambda filled: claim(filled) | {"most": 1}, {BY_JOB, DUE}, 1),
    "claim where nothing is due": Expected(
        "items", "claim_items", lambda filled: claim(filled) | {"job_id": filled.quiet_job_id}, {BY_JOB, DUE}, BATCH
    ),
    "rescue": Expected("items", "expired_leases", lambda filled: {"job_id": None, "most": BATCH}, {KEY}, HELD),
    "rescue of a job": Expected(
        "items", "expired_leases", lambda filled: {"job_id": filled.job_id, "most": BATCH}, {KEY}, HELD
    ),
    "a look at the claims": Expected("items", "look_at_claims", lambda filled: {"job_id": None}, {KEY}, HELD),
    "settle": Expected("items", "settle_items", lambda filled: settlement(filled, rescue=False), {KEY}, BATCH),
    "settle by rescue": Expected("items", "settle_items", lambda filled: settlement(filled, rescue=True), {KEY}, BATCH),
    "renew": Expected("items", "renew_leases", held, {KEY}, BATCH),
    "hold": Expected("items", "hold_item", one_held, {KEY}, 1),
    "checkpoint": Expected("items", "checkpoint_item", one_held, {KEY}, 1),
    "tries": Expected("items", "tries_of_item", one_held, {KEY}, 1),
    "settled before": Expected("items", "items_settled_by", held, {KEY}, BATCH),
    "page of a job": Expected("pages", "page_of_job", page, {BY_JOB, KEY}, 300 + HELD),
    "deep page of a job": Expected(
        "pages", "page_of_job", lambda filled: page(filled, deep=True, statuses=["SUCCEEDED"]), {BY_JOB}, 100
    ),
    "page of all statuses of a job": Expected(
        "pages", "page_of_job", lambda filled: page(filled, deep=True, statuses=list(ItemState)), {BY_JOB}, 800 + HELD
    ),
    "page of an owner": Expected("pages", "page_of_items", page, {BY_OWNER}, 600 + HELD),
    "deep page of an owner": Expected(
        "pages", "page_of_items", lambda filled: page(filled, deep=True, statuses=["SUCCEEDED"]), {BY_OWNER}, 200
    ),
    "page of all statuses of an owner": Expected(
        "pages",
        "page_of_items",
        lambda filled: page(filled, deep=True, statuses=list(ItemState)),
        {BY_OWNER},
        1_600 + HELD,
    ),
    "page of all owners": Expected(
        "pages", "page_of_items", lambda filled: page(filled) | {"owner": None}, {BY_OWNER}, 100 * GROUPS + HELD
    ),
    "deep page of one kind of all owners": Expected(
        "pages",
        "page_of_items",
        lambda filled: page(filled, deep=True, statuses=["PENDING", "DLQ"]) | {"owner": None, "kind": "work"},
        {BY_OWNER},
        100 * GROUPS,
    ),
    "deep page in the order of keys": Expected(
        "pages", "page_in_order", lambda filled: page(filled, deep=True), {"job_item_key_is_unique"}, 100
    ),
    "the next moment": Expected("items", "next_moment", lambda filled: {"job_id": filled.job_id}, {DUE}, 20),
}


@pytest.mark.parametrize("mode", ["custom", "generic"])
def test_plans(filled: Filled, mode: str) -> None:
    """The queries share one table, because filling it is what takes the time. They are planned with their values known,
    and as prepared for any."""
    wrong = []
    for what, expected in EXPECTED.items():
        plan = Plan(filled.url, mode, expected.file, expected.name, expected.values(filled))
        bound = ALWAYS + PER_ITEM * expected.items
        fine = not plan.whole_tables and expected.indexes <= plan.indexes and plan.buffers <= bound
        if not fine or plan.most_rows > 10 * expected.items + 100:
            wrong.append(
                f"{what}: {plan.buffers} pages of {bound}, {plan.most_rows} rows,"
                f" whole tables {plan.whole_tables}, indexes {sorted(plan.indexes)}"
            )
    assert wrong == [], "\n".join(wrong)
