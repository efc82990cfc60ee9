"""The shared limit: the other side never counts more than it allows, whoever asks; a refusal stops everybody."""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import rate_limit
from bulk_pipelines.engine.rate_limit import Limit, Limiter, MustWait, Stopped, Window
from bulk_pipelines.errors import InvalidInput, NotFound


def limiter(pool: Engine, limit: Limit) -> Limiter:
    return Limiter(pool, limit, sleep=lambda _: None)


def aged(pool: Engine, name: str, seconds: float) -> None:
    """Let so much time pass for the limit."""
    with transaction(pool) as connection:
        connection.execute(
            "UPDATE rate_limit SET ended = (SELECT coalesce(array_agg(e - %(s)s), '{}') FROM unnest(ended) AS e),"
            " held_until = (SELECT coalesce(array_agg(e - %(s)s), '{}') FROM unnest(held_until) AS e),"
            " last_begun = last_begun - %(s)s, blocked_until = blocked_until - %(s)s WHERE name = %(name)s",
            {"s": seconds, "name": name},
        )


def used(one: Limiter, times: int = 1) -> None:
    for _ in range(times):
        with one.use(0):
            pass


def test_a_use_counts_until_its_window_has_passed_since_its_end(pool: Engine) -> None:
    one = limiter(pool, Limit("window", (Window(2, 100.0),), at_once=5))
    used(one, 2)
    with pytest.raises(MustWait) as waits:
        used(one)
    assert 99 < waits.value.seconds <= 100
    aged(pool, "window", 99)
    with pytest.raises(MustWait):
        used(one)
    aged(pool, "window", 2)
    used(one, 2)


def test_only_so_many_are_under_way(pool: Engine) -> None:
    one = limiter(pool, Limit("at once", at_once=2))
    with one.use(0), one.use(0), pytest.raises(MustWait):
        used(one)
    used(one)


def test_uses_stand_apart(pool: Engine) -> None:
    one = limiter(pool, Limit("gap", at_once=5, gap=50.0))
    used(one)
    with pytest.raises(MustWait) as waits:
        used(one)
    assert 49 < waits.value.seconds <= 50
    aged(pool, "gap", 51)
    used(one)


def test_the_use_of_a_dead_process_ends_with_its_lease_and_counts_from_then(pool: Engine) -> None:
    one = limiter(pool, Limit("lease", (Window(1, 100.0),), lease_seconds=60.0))
    one.wait(0)
    aged(pool, "lease", 61)
    with pytest.raises(MustWait) as waits:
        used(one)
    assert 98 < waits.value.seconds <= 99
    aged(pool, "lease", 100)
    used(one)


def test_one_hears_retry_after_and_all_stop(pool: Engine) -> None:
    limit = Limit("heard", at_once=3)
    one, other = limiter(pool, limit), limiter(pool, limit)
    with one.use(0) as use:
        use.retry_after(60)
    for each in (one, other):
        with pytest.raises(MustWait) as waits:
            used(each)
        assert 59 < waits.value.seconds <= 60
    aged(pool, "heard", 61)
    used(other)


@pytest.mark.parametrize("seconds", ["nonsense", None, float("nan"), -5.0])
def test_a_retry_after_of_nonsense_blocks_nobody(pool: Engine, seconds: object) -> None:
    one = limiter(pool, Limit(f"nonsense {seconds}"))
    with one.use(0) as use:
        use.retry_after(seconds)
    used(one)


def test_the_circuit_breaks_after_failures_in_a_row_and_closes_with_a_success(pool: Engine) -> None:
    limit = Limit("breaker", break_after=3, break_seconds=30.0)
    one = limiter(pool, limit)

    def failed() -> None:
        with one.use(0) as use:
            use.fail()

    failed()
    failed()
    used(one)
    failed()
    failed()
    failed()
    with pytest.raises(MustWait):
        used(one)
    aged(pool, "breaker", 31)
    failed()  # one trial, which fails: closed to all again
    with pytest.raises(MustWait):
        used(one)
    aged(pool, "breaker", 31)
    used(one, 3)


def test_an_error_within_a_use_counts_as_a_failure(pool: Engine) -> None:
    one = limiter(pool, Limit("raised", break_after=1))
    with pytest.raises(ZeroDivisionError), one.use(0):
        _ = 1 / 0
    with pytest.raises(MustWait):
        used(one)


def test_whoever_is_to_stop_does_not_wait(pool: Engine) -> None:
    one = Limiter(pool, Limit("stops", gap=100.0), stopping=lambda: True)
    used(one)
    with pytest.raises(Stopped):
        used_with_patience(one)


def used_with_patience(one: Limiter) -> None:
    with one.use(1_000):
        pass


def test_a_clock_that_was_set_back_does_not_stop_it(pool: Engine) -> None:
    one = limiter(pool, Limit("set back", (Window(1, 10.0),), gap=5.0))
    used(one)
    aged(pool, "set back", -3_600)
    with pytest.raises(MustWait) as waits:
        used(one)
    assert waits.value.seconds <= 10.0


def test_a_limit_that_nobody_made(pool: Engine) -> None:
    with pytest.raises(NotFound, match="'nowhere'"), transaction(pool) as connection:
        rate_limit.read(connection, "nowhere")


@pytest.mark.parametrize(
    "limit",
    [
        Limit(""),
        Limit("x\0"),
        Limit("x", at_once=0),
        Limit("x", (Window(0, 1.0),)),
        Limit("x", (Window(100_000, 1.0),)),
        Limit("x", (Window(1, 0.0),)),
        Limit("x", (Window(1, float("nan")),)),
        Limit("x", gap=-1.0),
        Limit("x", gap=float("inf")),
        Limit("x", lease_seconds=0.0),
    ],
)
def test_limits_that_are_refused(limit: Limit) -> None:
    with pytest.raises(InvalidInput):
        limit.check()


# Everybody at once.

LIMIT = Limit("everybody", (Window(8, 0.4), Window(20, 1.5)), at_once=3)
SECONDS = 2.5


def use_up(url: str, threads: int) -> list[tuple[float, float]]:
    """Use the limit by threads that do nothing else, and return between which moments each use was under way."""
    own = pools.connect(url, size=threads)
    one = Limiter(own, LIMIT)
    end = time.monotonic() + SECONDS
    uses: list[tuple[float, float]] = []

    def go(_: int) -> None:
        while time.monotonic() < end:
            try:
                with one.use(0.5):
                    uses.append((time.monotonic(), time.monotonic() + 0.005))
                    threading.Event().wait(0.005)
            except MustWait:
                continue

    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(go, range(threads)))
    own.dispose()
    return uses


PROCESS = """
import json, sys
from bulk_pipelines_tests.integration.engine.rate_limit_test import use_up
print(json.dumps(use_up(sys.argv[1], 3)))
"""


def test_all_together_never_exceed_what_is_allowed(pool: Engine, pool_url: str) -> None:
    """Whenever the other side counts a use between its beginning and its end, it finds no window too full."""
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, pool_url], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    here = use_up(pool_url, 3)
    uses = [*here, *(tuple(use) for each in processes for use in json.loads(each.communicate(timeout=60)[0]))]
    assert [each.returncode for each in processes] == [0, 0]
    assert len(uses) >= 15, "and they do get what there is"
    for window in LIMIT.windows:
        for latest in (False, True):
            moments = sorted(use[latest] for use in uses)
            for first, last in zip(moments, moments[window.most :], strict=False):
                assert last - first >= window.seconds - 0.005


@pytest.fixture
def exact() -> Limit:
    return Limit("exact", (Window(50, 1_000.0),), at_once=50)


def test_no_use_is_granted_twice(pool: Engine, exact: Limit) -> None:
    ready = threading.Barrier(8)

    def go(_: int) -> int:
        one = Limiter(pool, replace(exact))
        ready.wait()
        got = 0
        while one.attempt().number is not None:
            got += 1
        return got

    with ThreadPoolExecutor(8) as executor:
        assert sum(executor.map(go, range(8))) == 50
