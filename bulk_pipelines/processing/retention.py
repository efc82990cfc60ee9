"""What nobody needs any more is removed: answers of providers, files that served as references, and the limits of web
servers that rows have named."""

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.settings import Settings

AT_A_TIME = 10_000


def prune_answers(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    """Remove answers that are older than `BULK_KEEP_ANSWERS_DAYS`, and return how many."""
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


def prune_references(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    """Remove files that no job has been matched with for as long as answers are kept, and return how many. They are
    loaded again when a recipe needs them."""
    values = {"days": chosen.keep_answers_days}
    with transaction(pool) as connection:
        if dry_run:
            row = connection.execute(queries.text("references", "old_files"), values).fetchone()
            return int(row[0]) if row else 0
        return connection.execute(queries.text("references", "forget_files"), values).rowcount


def prune_hosts(pool: Engine, _: Settings, dry_run: bool) -> int:
    """Remove the limits of web servers that nobody has called for a day, and return how many."""
    with transaction(pool) as connection:
        if dry_run:
            row = connection.execute(queries.text("rate_limit", "idle_hosts")).fetchone()
            return int(row[0]) if row else 0
        return connection.execute(queries.text("rate_limit", "forget_hosts")).rowcount
