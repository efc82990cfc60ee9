"""What the API needs to work, and what is wrong with it, in words."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from bulk_pipelines.api.door import Door
from bulk_pipelines.counted import counted
from bulk_pipelines.database import migrations
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import BulkError
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.errors import Missing

log = logging.getLogger(__name__)

ABSENT = "ready-look"
"""The name of a file that is nowhere: asking for it shows whether the storage answers."""
GOOD_FOR_SECONDS = 2.0


@dataclass(frozen=True)
class Found:
    """One thing that is needed, and whether it is there."""

    name: str
    ok: bool
    message: str


class Readiness:
    """Looks at what is needed, at most once in two seconds, because anybody may ask without a key. Whoever asks during
    a look is told what the look before it found, because a look may hang, and the threads are needed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.lock = threading.Lock()
        self.until = float("-inf")
        self.found = [Found(name, ok=False, message="it is being looked at for the first time") for name in LOOKS]

    def look(self, door: Door) -> list[Found]:
        if self.now() >= self.until and self.lock.acquire(blocking=False):
            try:
                self.found = [tried(name, look, door) for name, look in LOOKS.items()]
                self.until = self.now() + GOOD_FOR_SECONDS
            finally:
                self.lock.release()
        return self.found


def tried(name: str, look: Callable[[Door], str | None], door: Door) -> Found:
    """Look at one thing. The message names no address, because anybody may read it; the log has the whole error."""
    try:
        wrong = look(door)
    except (BulkError, psycopg.Error, OSError) as error:
        log.warning("not ready, %s: %s", name, error)
        return Found(name, ok=False, message=f"the {name} cannot be used now: see the log of the API, or bulk doctor")
    return Found(name, wrong is None, wrong or "fine")


def database(door: Door) -> str | None:
    with transaction(door.pool) as connection:
        connection.execute("SELECT 1")
    return None


def schema(door: Door) -> str | None:
    pending = migrations.pending(door.pool.url.render_as_string(hide_password=False))
    missing = counted(len(pending), "migration is", "migrations are")
    return f"the schema is not up to date, {missing} missing: run bulk migrate" if pending else None


def storage(door: Door) -> str | None:
    with locations.folder(landing.place(door.settings), access_of(door.settings), "BULK_LANDING_URL") as found:
        try:
            found.stat(ABSENT)
        except Missing:
            return None
    return None


LOOKS = {"database": database, "migrations": schema, "storage": storage}
