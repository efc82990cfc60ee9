"""Skip items: those that wait and are chosen are left out, because a person has decided that nobody is to work them."""

from collections.abc import Sequence

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.audit import Actor, Tally
from bulk_pipelines.engine.states import ITEM_MOVES, ItemEvent, ItemState, sources, target

BATCH = 10_000
WAITING = [state for state in sources(ITEM_MOVES, ItemEvent.SKIP) if state is not ItemState.RUNNING]


def skip(pool: Engine, job_key: str, item_ids: Sequence[int], by: Actor | None = None) -> int:
    """Skip those of the items that wait, and return how many. Items that are worked, or are over, are left alone."""
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key, jobs.seen_by(by))
    tally = Tally(by, ItemEvent.SKIP)
    skipped = 0
    for start in range(0, len(item_ids), BATCH):
        values = {
            "job_id": job.job_id,
            "item_ids": list(item_ids[start : start + BATCH]),
            "waiting": WAITING,
            "skipped": target(ITEM_MOVES, ItemEvent.SKIP),
        }
        with transaction(pool) as connection:
            row = connection.execute(queries.text("items", "skip_items"), values).fetchone()
            count = int(row[0]) if row else 0
            tally.add(connection, job.job_id, count)
        skipped += count
    return skipped
