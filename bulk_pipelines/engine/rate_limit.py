"""One token bucket for all workers on all machines, kept in PostgreSQL.

A process reserves tokens a block at a time, so that the bucket's row is not a hot spot. A block is short-lived: a
Retry-After that one worker hears reaches the others as soon as their blocks are used up or stale. A block is only as
large as its process needs: many processes that take a token now and then must not draw whole blocks, and leave nothing
for each other.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.worker.retry import LONGEST_DELAY
from bulk_pipelines.errors import InvalidInput, NotFound

BLOCK_SECONDS = 0.5
"""A block holds at most what the bucket gains in this many seconds, and is valid for as long."""


@dataclass(frozen=True)
class Limit:
    """A bucket: how fast it fills, and how many tokens it holds."""

    name: str
    tokens_per_second: float
    capacity: float

    @property
    def block(self) -> int:
        return max(1, int(min(self.tokens_per_second * BLOCK_SECONDS, self.capacity)))


@dataclass(frozen=True)
class Grant:
    """The tokens that a reservation brought, and the seconds to wait for more when it brought none."""

    tokens: int
    wait_seconds: float


def define(connection: Connection, limit: Limit) -> None:
    """Make the bucket, or change its speed and capacity."""
    if not 0 < limit.tokens_per_second < math.inf:
        raise InvalidInput("tokens_per_second", f"must be above 0, not {limit.tokens_per_second}")
    if not 1 <= limit.capacity < math.inf:
        raise InvalidInput("capacity", f"must be at least 1, not {limit.capacity}")
    values = {
        "name": payload.text("name", limit.name),
        "tokens_per_second": limit.tokens_per_second,
        "capacity": limit.capacity,
    }
    connection.execute(queries.text("rate_limit", "define_limit"), values)


def reserve(connection: Connection, name: str, most: int) -> Grant:
    row = connection.execute(queries.text("rate_limit", "reserve_tokens"), {"name": name, "most": most}).fetchone()
    if row is None:
        raise NotFound(f"no rate limit is named {name!r}")
    return Grant(*row)


def give_back(connection: Connection, name: str, unused: int) -> None:
    connection.execute(queries.text("rate_limit", "return_tokens"), {"name": name, "unused": unused})


def block(connection: Connection, name: str, seconds: float) -> None:
    """Let nobody take a token for so many seconds, because the other side said so."""
    bounded = min(max(outcomes.seconds(seconds) or 0.0, 0.0), LONGEST_DELAY)
    connection.execute(queries.text("rate_limit", "block_limit"), {"name": name, "seconds": bounded})


class Limiter:
    """One process's share of a bucket; the process's threads use the same blocks."""

    def __init__(
        self,
        pool: Engine,
        limit: Limit,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.pool = pool
        self.limit = limit
        self.clock = clock
        self.sleep = sleep
        self.lock = threading.Lock()
        self.block = 1
        self.granted = 0
        self.tokens = 0
        self.stale_at = 0.0

    def take(self, patience: float) -> bool:
        """Take a token, and wait for it as long as `patience` says. False when there was none in that time."""
        deadline = self.clock() + patience
        while True:
            wait = self.attempt()
            if wait <= 0:
                return True
            if self.clock() + wait > deadline:
                return False
            self.sleep(wait)

    def attempt(self) -> float:
        """Try to take a token. Return 0 when one was taken, else the seconds to wait before the next attempt."""
        with self.lock:
            if self.tokens and self.clock() < self.stale_at:
                self.tokens -= 1
                return 0.0
            self.block = self.next_block()
            with transaction(self.pool) as connection:
                grant = reserve(connection, self.limit.name, self.block)
            self.granted = grant.tokens
            self.tokens = max(0, grant.tokens - 1)
            self.stale_at = self.clock() + BLOCK_SECONDS
            return 0.0 if grant.tokens else max(grant.wait_seconds, 0.001)

    def next_block(self) -> int:
        """Return the size of the next block: twice the last one if that was used up in its time, else what was used of
        it."""
        if self.tokens:
            return max(1, self.granted - self.tokens)
        if self.granted and self.clock() < self.stale_at:
            return min(2 * self.block, self.limit.block)
        return self.block

    def blocked(self, seconds: float) -> None:
        """Stop everyone for so many seconds, because the other side answered with Retry-After."""
        with self.lock:
            self.tokens = 0
            with transaction(self.pool) as connection:
                block(connection, self.limit.name, seconds)

    def close(self) -> None:
        """Hand back the tokens that are still valid. Those of a stale block are lost, as they would be if the bucket
        overflowed."""
        with self.lock:
            if self.tokens and self.clock() < self.stale_at:
                with transaction(self.pool) as connection:
                    give_back(connection, self.limit.name, self.tokens)
            self.tokens = 0
