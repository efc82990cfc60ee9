"""Removing files from the ledger that went away long ago. All others stay, because its entry in the ledger keeps a file
from being taken twice."""

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import ledger
from bulk_pipelines.settings import Settings

AT_A_TIME = 10_000


def prune_ledger(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    values = {"days": chosen.keep_drops_days, "most": AT_A_TIME}
    if dry_run:
        with transaction(pool) as connection:
            row = connection.execute(ledger.text("count_prunable_drops"), values).fetchone()
        return int(row[0]) if row else 0
    with transaction(pool) as connection:
        connection.execute(ledger.text("prune_unmatched"), values)
    removed = 0
    while True:
        with transaction(pool) as connection:
            count = connection.execute(ledger.text("prune_drops"), values).rowcount
        if not count:
            return removed
        removed += count
