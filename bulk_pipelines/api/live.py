"""Waiting for jobs to be over: one look at the database for all who wait in this process, whatever their number."""

import asyncio
import logging
import time
from collections import defaultdict

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


class Ends:
    """Tells when jobs are over. It looks only while somebody waits."""

    def __init__(self, pool: Engine) -> None:
        self.pool = pool
        self.waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self.task: asyncio.Task[None] | None = None

    async def wait(self, job_key: str, seconds: float) -> bool:
        """Wait until the job is over, or so many seconds; return whether it is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[job_key].add(future)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self.look())
        try:
            await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return False
        finally:
            self.waiting[job_key].discard(future)
            if not self.waiting[job_key]:
                del self.waiting[job_key]
        return True

    async def look(self) -> None:
        while self.waiting:
            began = time.monotonic()
            try:
                over = await run_in_threadpool(finished_of, self.pool, list(self.waiting))
            except Exception:
                log.exception("the jobs that are waited for cannot be looked at")
                over = []
            for job_key in over:
                for future in self.waiting.get(job_key, ()):
                    if not future.done():
                        future.set_result(None)
            await asyncio.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - began)))


def finished_of(pool: Engine, job_keys: list[str]) -> list[str]:
    """Return those of the jobs that are over or gone."""
    with transaction(pool) as connection:
        rows = connection.execute(queries.text("retention", "finished_of"), {"job_keys": job_keys})
        return [row[0] for row in rows]
