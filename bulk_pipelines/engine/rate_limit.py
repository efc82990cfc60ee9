"""One limit for all who call a server, on all hosts, kept in one row of PostgreSQL.

A use is counted from the moment when it is allowed until the answer is there and the limit's window has passed since.
The other side counts a request at a moment between the two. So it never counts more requests in its window than are
allowed, however long a request or a process was held up on the way. What is decided here is pure arithmetic on the
state of the row; the row is locked while it is decided.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.worker.retry import LONGEST_DELAY
from bulk_pipelines.errors import InvalidInput, NotFound

LOOK_AGAIN = 0.02
"""Seconds until the next look while the uses of others are under way, whose ends nobody knows."""
LONGEST_NAP = 0.5
"""The longest time, in seconds, for which a waiter does not look whether it is to stop."""
MOST_USES = 10_000
"""The largest number that a window may allow: each use within it is an entry in the row."""


class Window(NamedTuple):
    """A bound: at most so many uses in so many seconds."""

    most: int
    seconds: float


@dataclass(frozen=True)
class Limit:
    """What the other side allows."""

    name: str
    windows: tuple[Window, ...] = ()
    at_once: int = 1
    """How many uses may be under way at the same time."""
    gap: float = 0.0
    """Seconds between the beginnings of two uses, at least."""
    lease_seconds: float = 60.0
    """A use whose process died counts as ended after this time."""
    break_after: int = 0
    """How many failures in a row keep everybody from using the limit for `break_seconds`; after that, one failure is
    enough. 0: failures do not matter."""
    break_seconds: float = 30.0

    def check(self) -> "Limit":
        payload.text("name", self.name)
        for window in self.windows:
            if not 1 <= window.most <= MOST_USES:
                raise InvalidInput("limit", f"a window allows from 1 to {MOST_USES:,} uses, not {window.most}")
            if not 0 < window.seconds <= LONGEST_DELAY:
                raise InvalidInput("limit", f"a window lasts longer than nothing, not {window.seconds:g} seconds")
        if not 1 <= self.at_once <= MOST_USES:
            raise InvalidInput("limit", f"from 1 to {MOST_USES:,} uses may be under way at once, not {self.at_once}")
        if not 0 <= self.gap < math.inf or not 0 < self.lease_seconds < math.inf:
            raise InvalidInput("limit", "the gap and the lease are times in seconds")
        return self

    @property
    def memory(self) -> float:
        """The seconds for which an ended use matters."""
        return max((window.seconds for window in self.windows), default=0.0)


@dataclass(frozen=True)
class State:
    """The row of a limit. Moments are seconds of the database's clock."""

    held: dict[int, float] = field(default_factory=dict)
    """The uses under way by their numbers, each with the end of its lease."""
    ended: tuple[float, ...] = ()
    """When the other uses ended, the oldest first."""
    last_number: int = 0
    last_begun: float | None = None
    blocked_until: float | None = None
    failures: int = 0
    """How many uses failed since the last one that did not."""


class Grant(NamedTuple):
    """The number of a use that is allowed; or the seconds to wait, when it is not."""

    number: int | None
    wait_seconds: float = 0.0


def aged(limit: Limit, state: State, now: float) -> State:
    """Return the state without what does not matter any more. A use whose lease ran out has ended then. A moment in the
    future was written before the database's clock was set back, and counts as now."""
    lost = [until for until in state.held.values() if until <= now]
    oldest = now - limit.memory
    ended = tuple(sorted(min(each, now) for each in (*state.ended, *lost) if each > oldest))
    begun = None if state.last_begun is None else min(state.last_begun, now)
    return replace(
        state, held={n: until for n, until in state.held.items() if until > now}, ended=ended, last_begun=begun
    )


def wait_of(limit: Limit, state: State, now: float) -> float:
    """Return the seconds until a use may begin, as far as anybody can tell; 0 when one may begin now."""
    waits = [0.0]
    if state.blocked_until is not None:
        waits.append(state.blocked_until - now)
    if state.last_begun is not None:
        waits.append(state.last_begun + limit.gap - now)
    if len(state.held) >= limit.at_once:
        waits.append(LOOK_AGAIN)
    for window in limit.windows:
        within = [each for each in state.ended if each > now - window.seconds]
        surplus = len(within) + len(state.held) - window.most
        if surplus >= 0:
            waits.append(within[surplus] + window.seconds - now if surplus < len(within) else LOOK_AGAIN)
    return max(waits)


def begun(limit: Limit, state: State, now: float) -> tuple[State, Grant]:
    """Return the state after somebody asked for a use, and the answer."""
    state = aged(limit, state, now)
    wait = wait_of(limit, state, now)
    if wait > 0:
        return state, Grant(None, wait)
    number = state.last_number + 1
    held = state.held | {number: now + limit.lease_seconds}
    return replace(state, held=held, last_number=number, last_begun=now), Grant(number)


def ended(limit: Limit, state: State, number: int, now: float, *, failed: bool, block: float | None) -> State:
    """Return the state after a use has ended. `block` is how long nobody may use the limit, because the other side said
    so."""
    state = aged(limit, state, now)
    if number in state.held:
        held = {n: until for n, until in state.held.items() if n != number}
        state = replace(state, held=held, ended=(*state.ended, now))
    failures = state.failures + 1 if failed else 0
    waits = [] if block is None else [min(max(block, 0.0), LONGEST_DELAY)]
    if limit.break_after and failures >= limit.break_after:
        waits.append(limit.break_seconds)
    if waits:
        until = max(now + max(waits), state.blocked_until or now)
        state = replace(state, blocked_until=until)
    return replace(state, failures=failures)


def make(connection: Connection, name: str) -> None:
    connection.execute(queries.text("rate_limit", "make_limit"), {"name": name})


def read(connection: Connection, name: str) -> tuple[State, float]:
    """Lock the row of a limit, and return its state and the present moment."""
    row = connection.execute(queries.text("rate_limit", "lock_limit"), {"name": name}).fetchone()
    if row is None:
        raise NotFound(f"no rate limit is named {name!r}")
    numbers, until, finished, last_number, last_begun, blocked_until, failures, now = row
    held = dict(zip(numbers, until, strict=True))
    return State(held, tuple(finished), last_number, last_begun, blocked_until, failures), now


def write(connection: Connection, name: str, state: State) -> None:
    values = {
        "name": name,
        "held_numbers": list(state.held),
        "held_until": list(state.held.values()),
        "ended": list(state.ended),
        "last_number": state.last_number,
        "last_begun": state.last_begun,
        "blocked_until": state.blocked_until,
        "failures": state.failures,
    }
    connection.execute(queries.text("rate_limit", "write_limit"), values)


class Use:
    """A use that is under way. Whoever has it says what came of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.failed = False
        self.block: float | None = None
        self.status = ""
        """What the other side answered, if it did."""
        self.blocked_seconds = 0.0
        """How many more seconds nobody may use the limit because of this use."""

    def fail(self) -> None:
        """Say that the other side did not do its work, which counts for the circuit breaker."""
        self.failed = True

    def retry_after(self, seconds: object) -> None:
        """Say that the other side asked to wait. Everybody waits."""
        self.block = outcomes.seconds(seconds)


class MustWait(Exception):
    """No use is allowed for so many seconds, which is longer than the caller wants to wait."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"{name} may not be called for {seconds:.1f} s")
        self.seconds = seconds


class Stopped(Exception):
    """The caller was to stop while it waited."""


class Limiter:
    """The door to a limit. All threads of a process may use it."""

    def __init__(
        self,
        pool: Engine,
        limit: Limit,
        *,
        stopping: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.pool = pool
        self.limit = limit.check()
        self.stopping = stopping
        self.sleep = sleep
        # One thread of a process waits at the row, and the others behind it: many at once would only keep each other
        # from it.
        self.turn = threading.Lock()
        with transaction(pool) as connection:
            make(connection, limit.name)

    @contextmanager
    def use(self, patience: float) -> Iterator[Use]:
        """Wait until a use is allowed, and count it until the end of the block. Raises `MustWait` when that takes
        longer than `patience` seconds, and `Stopped` when the caller is to stop."""
        use = Use(self.wait(patience))
        try:
            yield use
        except BaseException:
            use.fail()
            raise
        finally:
            self.end(use)

    def wait(self, patience: float) -> int:
        deadline = time.monotonic() + patience
        if not self.turn.acquire(timeout=patience):
            raise MustWait(self.limit.name, LONGEST_NAP)
        try:
            return self.at_the_row(deadline)
        finally:
            self.turn.release()

    def at_the_row(self, deadline: float) -> int:
        while True:
            grant = self.attempt()
            if grant.number is not None:
                return grant.number
            if time.monotonic() + grant.wait_seconds > deadline:
                raise MustWait(self.limit.name, grant.wait_seconds)
            if self.stopping():
                raise Stopped
            self.sleep(min(grant.wait_seconds, LONGEST_NAP))

    def attempt(self) -> Grant:
        with transaction(self.pool) as connection:
            try:
                state, now = read(connection, self.limit.name)
            except NotFound:  # retention removes limits that nobody uses
                make(connection, self.limit.name)
                state, now = read(connection, self.limit.name)
            state, grant = begun(self.limit, state, now)
            if grant.number is not None:
                write(connection, self.limit.name, state)
        return grant

    def end(self, use: Use) -> None:
        with transaction(self.pool) as connection:
            state, now = read(connection, self.limit.name)
            before = max(state.blocked_until or now, now)
            state = ended(self.limit, state, use.number, now, failed=use.failed, block=use.block)
            write(connection, self.limit.name, state)
        use.blocked_seconds = max(state.blocked_until or now, now) - before
