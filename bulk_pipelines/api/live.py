"""Watching jobs: the database is looked at once a second for all who watch in this process, however many they are. A
listener that is slow gets only the latest state of each job, so nothing piles up."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Engine

from bulk_pipelines.api import states
from bulk_pipelines.api.states import MOST_OPEN, Paces, State, Watched

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


@dataclass(eq=False)
class Listener:
    """Somebody who watches jobs: one of them by its key, some that a page shows, or all open ones of an owner, or of
    everybody."""

    key: str | None = None
    shown: frozenset[str] | None = None
    """The keys of the jobs that a page of the console shows. More is read of them, because the page needs it."""
    owner: str | None = None
    kinds: frozenset[str] = frozenset()
    by: str = ""
    """Who listens."""
    told: dict[str, str] = field(default_factory=dict)
    """The digest of the state that was last told, for each job."""
    waiting: dict[str, State] = field(default_factory=dict)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    fresh: bool = True
    """Whether no look has been taken since the listener came."""

    @property
    def keys(self) -> frozenset[str] | None:
        """The keys of the jobs that are watched; None if jobs are watched by their owner."""
        return self.shown if self.key is None else frozenset((self.key,))

    def wants(self, state: State) -> bool:
        if self.keys is not None:
            return state.job_key in self.keys
        return (self.owner is None or state.owner == self.owner) and (not self.kinds or state.kind in self.kinds)

    def tell(self, state: State) -> None:
        if self.wants(state) and self.told.get(state.job_key) != state.digest:
            self.told[state.job_key] = state.digest
            self.waiting[state.job_key] = state
            self.woken.set()

    async def news(self, seconds: float) -> list[State]:
        """Return the latest states of the jobs that have changed; none if nothing has for so many seconds."""
        try:
            await asyncio.wait_for(self.woken.wait(), seconds)
        except TimeoutError:
            return []
        self.woken.clear()
        found, self.waiting = list(self.waiting.values()), {}
        return found


class Live:
    """Tells listeners how jobs are. It looks only while somebody listens."""

    def __init__(self, pool: Engine) -> None:
        self.pool = pool
        self.of_key: defaultdict[str, set[Listener]] = defaultdict(set)
        self.of_all: set[Listener] = set()
        self.paces = Paces()
        self.states: dict[str, State] = {}
        self.task: asyncio.Task[None] | None = None
        self.looked = float("-inf")
        self.closed = False

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[Listener]:
        """Tell the listener of its jobs until the block ends. The first look comes within a second."""
        groups = [self.of_all] if listener.keys is None else [self.of_key[key] for key in listener.keys]
        for group in groups:
            group.add(listener)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self.look())
        try:
            yield listener
        finally:
            for group in groups:
                group.discard(listener)
            for key in listener.keys or ():
                if not self.of_key[key]:
                    del self.of_key[key]

    async def wait(self, job_key: str, seconds: float) -> bool:
        """Wait until the job is over, or so many seconds; return whether it is over."""
        until = time.monotonic() + seconds
        with self.listening(Listener(job_key)) as listener:
            while not self.closed and (left := until - time.monotonic()) > 0:
                if any(state.over for state in await listener.news(left)):
                    return True
        return False

    def close(self) -> None:
        """Let every listener end: the server is about to stop."""
        self.closed = True
        for listener in self.everybody():
            listener.woken.set()

    def everybody(self) -> list[Listener]:
        return list({*self.of_all, *(each for group in self.of_key.values() for each in group)})

    async def look(self) -> None:
        while (self.of_all or self.of_key) and not self.closed:
            await asyncio.sleep(max(0.0, self.looked + LOOK_SECONDS - time.monotonic()))
            self.looked = time.monotonic()
            try:
                await self.look_once()
            except Exception:
                log.exception("the jobs that are watched cannot be looked at")
        self.states = {}

    async def look_once(self) -> None:
        listeners, keys = self.everybody(), list(self.of_key)
        now, rows = await run_in_threadpool(states.look, self.pool, self.watched())
        found = {row["job_key"]: self.state_of(row, now) for row in rows}
        found |= {key: states.gone(key) for key in keys if key not in found}
        self.tell(found, listeners)
        self.states = found
        self.paces.keep(found)

    def state_of(self, row: states.Row, now: datetime) -> State:
        pace = self.paces.pace(row, now)
        return states.state_of(row, pace, self.paces.past[row["job_key"]])

    def watched(self) -> Watched:
        # A job that was open at the last look is looked at by its key: its end may bear a time that is long past.
        seen = [key for key, state in self.states.items() if not state.over] if self.of_all else []
        return Watched(
            keys={*self.of_key, *seen},
            owners={each.owner for each in self.of_all if each.owner is not None},
            everyone=any(each.owner is None for each in self.of_all),
            shown={key for key, group in self.of_key.items() if any(each.shown is not None for each in group)},
        )

    def tell(self, found: dict[str, State], listeners: list[Listener]) -> None:
        changed = [
            state for key, state in found.items() if key not in self.states or self.states[key].digest != state.digest
        ]
        # Who has come while the look was under way is told by the next one, which reads what they need.
        there = set(listeners)
        for state in changed:
            for listener in there.intersection((*self.of_key.get(state.job_key, ()), *self.of_all)):
                listener.tell(state)
        for listener in listeners:
            if listener.fresh:
                listener.fresh = False
                wanted = found if listener.keys is None else listener.keys & found.keys()
                for key in wanted:
                    listener.tell(found[key])
            if len(listener.told) > 4 * MOST_OPEN:
                listener.told = {key: digest for key, digest in listener.told.items() if key in found}
