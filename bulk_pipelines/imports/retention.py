"""Removing what old imports leave behind and nobody needs any more: their rejects, and the files they landed."""

import re
from collections import Counter

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines.storage.errors import Missing

REJECTS_AT_A_TIME = 10_000
JOBS_AT_A_TIME = 500
OF_A_JOB = re.compile(r"(J\d{8}_\d{6,})(?:/|-rejects\.)")


def prune_rejects(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    days = min(chosen.keep_rejects_days, chosen.keep_jobs_days)
    with transaction(pool) as connection:
        found = connection.execute(queries.text("imports", "jobs_with_old_rejects"), {"days": days}).fetchall()
        if dry_run:
            return sum(rejects.count(connection, job_id) for (job_id,) in found)
    return sum(remove_rejects(pool, job_id) for (job_id,) in found)


def remove_rejects(pool: Engine, job_id: int) -> int:
    removed = 0
    while True:
        with transaction(pool) as connection:
            values = {"job_id": job_id, "limit": REJECTS_AT_A_TIME}
            count = connection.execute(queries.text("imports", "remove_rejected_rows"), values).rowcount
        if not count:
            return removed
        removed += count


def prune_landed(pool: Engine, chosen: Settings, dry_run: bool) -> int:
    """Remove old landed files, and return how many. They are listed from the storage, so that files which an earlier
    pass could not remove are found again."""
    days = min(chosen.keep_landed_days, chosen.keep_jobs_days)
    with locations.folder(landing.place(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
        files = counted(storage)
        keys = sorted(files)
        removed = 0
        for start in range(0, len(keys), JOBS_AT_A_TIME):
            for job_key in over(pool, keys[start : start + JOBS_AT_A_TIME], days):
                removed += files[job_key]
                if not dry_run:
                    landing.remove(storage, job_key)
    return removed


def counted(storage: Storage) -> Counter[str]:
    """Count the files that each job has in the storage."""
    try:
        return Counter(found[1] for entry in storage.entries() if (found := OF_A_JOB.match(entry.key)))
    except Missing:
        return Counter()  # nothing was ever landed


def over(pool: Engine, job_keys: list[str], days: int) -> list[str]:
    with transaction(pool) as connection:
        values = {"job_keys": job_keys, "days": days}
        return [row[0] for row in connection.execute(queries.text("imports", "jobs_with_old_landed_files"), values)]
