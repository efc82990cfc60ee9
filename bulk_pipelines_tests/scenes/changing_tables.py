"""Work that begins while somebody is changing the tables that it reads, and has to wait for them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.export_files import watching
from bulk_pipelines_tests.scenes.waiting import until

WAITING = "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation' AND mode = 'AccessShareLock'"


def meanwhile(engine: Engine, work: Callable[[], Any], change: str) -> Any:
    """Do the work, which begins while somebody has made the change and has not committed it."""
    with watching(engine) as looker, watching(engine) as stranger, stranger.transaction():
        stranger.execute(change.encode())
        executor = ThreadPoolExecutor(1)
        found = executor.submit(work)
        until(lambda: found.done() or looker.execute(WAITING).fetchone() is not None, "it waits for the change", 10)
    with executor:
        return found.result(timeout=30)
