"""Removing answers of providers that are too old to serve anybody."""

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.settings import Settings

AT_A_TIME = 10_000


def prune_answers(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    """Remove answers that no provider keeps for so long, and return how many."""
    values = {"days": chosen.keep_answers_days, "most": AT_A_TIME}
    if dry_run:
        with transaction(pool) as connection:
            row = connection.execute(queries.text("providers", "old_answers"), values).fetchone()
        return int(row[0]) if row else 0
    removed = 0
    while True:
        with transaction(pool) as connection:
            count = connection.execute(queries.text("providers", "forget_answers"), values).rowcount
        removed += count
        if count < AT_A_TIME:
            return removed
