"""The shared bucket: never more than it holds and gains, for all threads and processes together; blocked for all."""

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine import rate_limit
from bulk_pipelines.engine.rate_limit import BLOCK_SECONDS, Grant, Limit, Limiter
from bulk_pipelines.errors import NotFound

SLOW = 1e-6
"""Tokens per second, so that a bucket gains nothing during a test."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def defined(pool: Engine, name: str, tokens_per_second: float, capacity: float) -> Limit:
    limit = Limit(name, tokens_per_second, capacity)
    with transaction(pool) as connection:
        rate_limit.define(connection, limit)
    return limit


def reserved(pool: Engine, name: str, most: int) -> Grant:
    with transaction(pool) as connection:
        return rate_limit.reserve(connection, name, most)


def aged(pool: Engine, name: str, seconds: float) -> None:
    """As if so much time had passed since anybody looked."""
    with transaction(pool) as connection:
        connection.execute(
            "UPDATE rate_limit SET refilled_at = refilled_at - make_interval(secs => %(s)s),"
            " blocked_until = blocked_until - make_interval(secs => %(s)s) WHERE name = %(name)s",
            {"s": seconds, "name": name},
        )


# The bucket.


def test_a_full_bucket_and_then_what_it_gains(pool: Engine) -> None:
    defined(pool, "fills", 2.0, 10)
    assert reserved(pool, "fills", 4).tokens == 4
    assert reserved(pool, "fills", 100).tokens == 6
    empty = reserved(pool, "fills", 100)
    assert empty.tokens == 0
    assert 0 < empty.wait_seconds <= 0.5
    aged(pool, "fills", 3)
    assert reserved(pool, "fills", 100).tokens == 6
    aged(pool, "fills", 1_000)
    assert reserved(pool, "fills", 100).tokens == 10, "never more than it holds"


def test_the_wait_is_until_a_whole_token(pool: Engine) -> None:
    defined(pool, "slow", 0.01, 1)
    assert reserved(pool, "slow", 1) == Grant(1, 0)
    assert reserved(pool, "slow", 1).wait_seconds == pytest.approx(100, abs=1)
    aged(pool, "slow", 60)
    assert reserved(pool, "slow", 1).wait_seconds == pytest.approx(40, abs=1)
    aged(pool, "slow", 40.1)
    assert reserved(pool, "slow", 1) == Grant(1, 0)


def test_a_bucket_that_is_not_there(pool: Engine) -> None:
    with pytest.raises(NotFound, match="'nowhere'"):
        reserved(pool, "nowhere", 1)


def test_defining_it_again_keeps_its_tokens(pool: Engine) -> None:
    defined(pool, "again", SLOW, 10)
    assert reserved(pool, "again", 7).tokens == 7
    defined(pool, "again", SLOW, 10)
    assert reserved(pool, "again", 10).tokens == 3
    defined(pool, "again", SLOW, 20)
    assert reserved(pool, "again", 10).tokens == 0
    defined(pool, "smaller", SLOW, 10)
    defined(pool, "smaller", SLOW, 4)
    assert reserved(pool, "smaller", 10).tokens == 4


def test_a_block_is_for_everyone_and_leaves_nothing_over(pool: Engine) -> None:
    defined(pool, "blocked", 2.0, 10)
    with transaction(pool) as connection:
        rate_limit.block(connection, "blocked", 100)
    refused = reserved(pool, "blocked", 1)
    assert refused.tokens == 0
    assert refused.wait_seconds == pytest.approx(100, abs=1)
    aged(pool, "blocked", 99)
    assert reserved(pool, "blocked", 1).tokens == 0
    aged(pool, "blocked", 2)
    assert reserved(pool, "blocked", 10).tokens == 2, "what it gained since the end of the block"


def test_the_longest_block_counts(pool: Engine) -> None:
    defined(pool, "two blocks", 1.0, 10)
    with transaction(pool) as connection:
        rate_limit.block(connection, "two blocks", 100)
        rate_limit.block(connection, "two blocks", 5)
    assert reserved(pool, "two blocks", 1).wait_seconds == pytest.approx(100, abs=1)


@pytest.mark.parametrize("seconds", [math.inf, 1e300, math.nan, -5.0, 0.0])
def test_a_block_by_nonsense(pool: Engine, seconds: float) -> None:
    defined(pool, "nonsense", 1.0, 10)
    with transaction(pool) as connection:
        rate_limit.block(connection, "nonsense", seconds)
    assert reserved(pool, "nonsense", 1).tokens == 0
    with transaction(pool) as connection:
        connection.execute("DELETE FROM rate_limit WHERE name = 'nonsense'")


def test_what_is_given_back(pool: Engine) -> None:
    defined(pool, "returned", SLOW, 10)
    reserved(pool, "returned", 8)
    with transaction(pool) as connection:
        rate_limit.give_back(connection, "returned", 5)
    assert reserved(pool, "returned", 10).tokens == 7
    with transaction(pool) as connection:
        rate_limit.give_back(connection, "returned", 100)
    assert reserved(pool, "returned", 100).tokens == 10


def test_what_is_given_back_during_a_block_is_not_left_over_from_before(pool: Engine) -> None:
    defined(pool, "returned late", SLOW, 10)
    reserved(pool, "returned late", 8)
    with transaction(pool) as connection:
        rate_limit.block(connection, "returned late", 100)
        rate_limit.give_back(connection, "returned late", 5)
    aged(pool, "returned late", 101)
    assert reserved(pool, "returned late", 10).tokens == 0


def test_a_clock_that_was_set_back_does_not_stop_it(pool: Engine) -> None:
    """The server's own: nothing is gained for once, and from then on as ever."""
    defined(pool, "set back", 10.0, 10)
    reserved(pool, "set back", 10)
    aged(pool, "set back", -3_600)
    assert reserved(pool, "set back", 10).tokens == 0
    aged(pool, "set back", 0.55)
    assert reserved(pool, "set back", 10).tokens >= 5


# A process' hold on it.


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    asked: list[int] = []
    real = rate_limit.reserve

    def counting(connection: Connection, name: str, most: int) -> Grant:
        asked.append(most)
        return real(connection, name, most)

    with monkeypatch.context() as patch:
        patch.setattr(rate_limit, "reserve", counting)
        yield asked


def test_tokens_come_in_blocks(pool: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each one by a statement: the bucket's row would be all that everybody waits for."""
    limit = defined(pool, "blocks", 1_000, 1_000)
    limiter = Limiter(pool, limit, Clock())
    with counted(monkeypatch) as asked:
        for _ in range(900):
            assert limiter.take(0)
    assert len(asked) <= 12
    assert max(asked) == limit.block == 500


def test_a_process_with_little_to_do_does_not_draw_what_others_need(pool: Engine) -> None:
    """Blocks go stale: who takes one token now and then must not take a whole block for it each time."""
    limit = defined(pool, "modest", 0.1, 100)
    limit = Limit("modest", 100, 100)  # as its processes think of it; the bucket itself gains next to nothing
    clocks = [Clock() for _ in range(8)]
    limiters = [Limiter(pool, limit, clock) for clock in clocks]
    for _ in range(10):
        for limiter, clock in zip(limiters, clocks, strict=True):
            assert limiter.take(0)
            clock.now += 2 * BLOCK_SECONDS


def test_demand_that_falls_draws_less(pool: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    limiter = Limiter(pool, defined(pool, "falls", 100, 1_000), clock)
    for _ in range(60):
        assert limiter.take(0)
    with counted(monkeypatch) as asked:
        for _ in range(4):
            clock.now += 2 * BLOCK_SECONDS
            assert limiter.take(0)
    assert asked[-1] == 1


def test_a_stale_block_is_not_used(pool: Engine) -> None:
    """Somebody may have heard a Retry-After meanwhile."""
    clock = Clock()
    limiter = Limiter(pool, defined(pool, "stale", 100, 100), clock)
    for _ in range(4):
        assert limiter.take(0)
    assert limiter.tokens > 0
    with transaction(pool) as connection:
        rate_limit.block(connection, "stale", 100)
    clock.now += 2 * BLOCK_SECONDS
    assert not limiter.take(0)


def test_it_waits_as_long_as_it_has_patience(pool: Engine) -> None:
    clock = Clock()
    limit = defined(pool, "patience", 0.5, 1)
    limiter = Limiter(pool, limit, clock, clock.sleep)
    assert limiter.take(0)
    assert not limiter.take(1.0)
    assert clock.now == 0, "it does not wait for what will not come in time"

    def sleep(seconds: float) -> None:
        clock.now += seconds
        aged(pool, "patience", seconds)

    limiter.sleep = sleep
    assert limiter.take(5.0)
    assert clock.now == pytest.approx(2.0, abs=0.5)


def test_one_hears_retry_after_and_all_stop(pool: Engine) -> None:
    clock = Clock()
    limit = defined(pool, "heard", 100, 100)
    one, other = Limiter(pool, limit, clock), Limiter(pool, limit, clock)
    for limiter in (one, other):
        for _ in range(3):
            assert limiter.take(0)
    one.blocked(60)
    assert not one.take(1)
    clock.now += BLOCK_SECONDS
    assert not other.take(1)
    aged(pool, "heard", 61)
    assert one.take(0)
    assert other.take(0)


def test_leaving_gives_back_what_is_still_good(pool: Engine) -> None:
    limit = defined(pool, "leaving", SLOW, 100)
    limiter = Limiter(pool, Limit("leaving", 100, 100), Clock())
    for _ in range(4):
        assert limiter.take(0)
    limiter.close()
    assert limiter.tokens == 0
    assert reserved(pool, limit.name, 100).tokens == 96
    limiter.close()
    assert reserved(pool, limit.name, 100).tokens == 0


def test_threads_share_a_block_and_each_token_is_used_once(pool: Engine) -> None:
    defined(pool, "threads", SLOW, 300)
    limiter = Limiter(pool, Limit("threads", 100, 300))
    with ThreadPoolExecutor(8) as executor:
        taken = list(executor.map(lambda _: limiter.take(0), range(400)))
    stale = 300 - sum(taken)
    assert 0 <= stale <= 50


# Everybody at once.

RATE, CAPACITY, SECONDS = 150.0, 40.0, 1.5


def use_up(url: str, name: str, threads: int) -> list[tuple[float, float]]:
    """Between which moments each token was taken, by threads that do nothing else."""
    own = pools.connect(url, size=threads)
    limiter = Limiter(own, Limit(name, RATE, CAPACITY))
    end = time.monotonic() + SECONDS
    taken: list[tuple[float, float]] = []

    def go(_: int) -> None:
        while time.monotonic() < end:
            before = time.monotonic()
            if limiter.take(0.5):
                taken.append((before, time.monotonic()))

    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(go, range(threads)))
    own.dispose()
    return taken


PROCESS = """
import json, sys
from bulk_pipelines_tests.integration.engine.rate_limit_test import use_up
print(json.dumps(use_up(sys.argv[1], sys.argv[2], 3)))
"""


def test_all_together_get_no_more_than_the_bucket_allows(pool: Engine, pool_url: str) -> None:
    """In any window of time: what it holds, what it gains meanwhile, and what a block that is not yet stale holds."""
    defined(pool, "everybody", RATE, CAPACITY)
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, pool_url, "everybody"], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    here = use_up(pool_url, "everybody", 4)
    taken = [*here, *(moments for each in processes for moments in json.loads(each.communicate(timeout=60)[0]))]
    assert [each.returncode for each in processes] == [0, 0]
    assert len(taken) >= RATE * SECONDS / 2, "and they do get what there is"
    for begin, _ in taken:
        ends = sorted(after for before, after in taken if before >= begin)
        for tokens, end in enumerate(ends, 1):
            allowed = CAPACITY + RATE * (end - begin + BLOCK_SECONDS)
            assert tokens <= allowed, f"{tokens} tokens in {end - begin:.3f} s"


def test_the_row_says_exactly_what_was_granted(pool: Engine) -> None:
    """No token is granted twice, however many reserve at the same moment."""
    defined(pool, "exact", SLOW, 1_000)
    ready = threading.Barrier(8)

    def go(_: int) -> int:
        ready.wait()
        total = 0
        while got := reserved(pool, "exact", 7).tokens:
            total += got
        return total

    with ThreadPoolExecutor(8) as executor:
        assert sum(executor.map(go, range(8))) == 1_000
