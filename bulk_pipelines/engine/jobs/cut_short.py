"""Going through jobs that ended before their time, to clear away what they left."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction

log = logging.getLogger(__name__)

AT_A_TIME = 100


def wind_up_all(pool: Engine, wind_up: Callable[[Engine, str], None], query: str, values: Mapping[str, Any]) -> int:
    """Call `wind_up` with the key of each job that the query finds, and return how many were wound up. A job that
    cannot be wound up does not hold up the others."""
    count = 0
    for job_key in keys(pool, query, values):
        try:
            wind_up(pool, job_key)
            count += 1
        except Exception:
            log.exception("job %s cannot be wound up; the others do not wait for it", job_key)
    return count


def is_anything_due(pool: Engine, query: str, values: Mapping[str, Any]) -> bool:
    """Whether the query finds a job."""
    return next(keys(pool, query, values), None) is not None


def keys(pool: Engine, query: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that the query finds, a page at a time. It returns `:most` keys with their ids, behind
    `:after_id`."""
    last = 0
    while True:
        with transaction(pool) as connection:
            rows = connection.execute(query, {**values, "most": AT_A_TIME, "after_id": last}).fetchall()
        if not rows:
            return
        yield from (job_key for job_key, _ in rows)
        last = rows[-1][1]
