"""Whatever handlers answer, a worker goes on: their items get an end that says why, the others of their batch lose
nothing by it."""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool as pools
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker.retry import LONGEST_DELAY
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import BulkError, ErrorClass, Failure, Transient
from bulk_pipelines_tests.scenes import databases
from bulk_pipelines_tests.scenes.engine_jobs import check_counters, kind, only, rows, running
from bulk_pipelines_tests.scenes.today import examples

GOOD = 3
"""Items before and behind, whose answers are fine."""


class Mute:
    """An object that fails whoever looks at it."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __hash__(self) -> int:
        raise TypeError("no hash")

    def __float__(self) -> float:
        raise ZeroDivisionError


class Shifting(dict[str, Any]):
    """A result whose reading fails in a way that no JSON library knows of."""

    def items(self) -> Any:
        raise KeyError("gone")


class Strange(Failure):
    def __init__(self, message: object, error_class: object, retry_after: object) -> None:
        super().__init__(message)
        self.error_class = error_class  # type: ignore[misc, assignment]
        self.retry_after = retry_after  # type: ignore[assignment]


class Fragile(BulkError):
    @property
    def error_class(self) -> str:  # type: ignore[override]
        raise RuntimeError("nothing to say")

    def __str__(self) -> str:
        raise RuntimeError("no words")


texts = st.text(st.characters(exclude_categories=()), max_size=20)
odd: st.SearchStrategy[Any] = st.sampled_from(
    [Mute(), Shifting(a=1), object, float, [], (), b"\0", 1j, {1, 2}, None, True, False]
)
delays = st.one_of(
    st.none(),
    st.integers(),
    st.sampled_from([10**400, -(10**400), Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999"), Fraction(1, 3)]),
    st.floats(),
    st.decimals(),
    st.timedeltas(),
    st.sampled_from(["30", " 1.5 ", "soon", "inf", "nan", "Wed, 21 Oct 2026 07:28:00 GMT"]),
    texts,
    odd,
)
classes = st.one_of(st.sampled_from(ErrorClass), st.sampled_from(["transient", "throttled", "sick", ""]), texts, odd)
reasons = st.one_of(texts, st.just("x" * 10_000), st.integers(), odd)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    texts,
    st.just("\ud83d"),
    st.just("a\0b"),
    odd,
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.integers(), inner, max_size=3),
    max_leaves=6,
)
results = st.dictionaries(texts, values, max_size=3) | values
returned = st.one_of(
    st.builds(Done, results, st.none() | results),
    st.builds(NotFound, reasons),
    st.builds(Skip, reasons),
    st.builds(RetryLater, reasons, delays, classes),
    st.builds(Bury, reasons, classes),
    values,
    st.sampled_from([Done, RetryLater]),
)
raised = st.one_of(
    st.builds(Strange, reasons, classes, delays),
    st.builds(ValueError, reasons),
    st.just(Fragile()),
)


@pytest.fixture(scope="module")
def pool(server: Any, template: str) -> Iterator[Engine]:
    with databases.fresh(server, template) as url:
        made = pools.connect(url, application="test")
        yield made
        made.dispose()


def ended(pool: Engine, answers: Mapping[str, object], concurrency: int) -> dict[str, Any]:
    """Return every item of a job in which some answer as given, after one pass of a worker over all of them."""

    def handle(lease: Lease, tools: Tools) -> Outcome:
        if lease.item_key not in answers:
            return Done({"fine": 1})
        answer = answers[lease.item_key]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    kinds = only(kind(handle, concurrency=concurrency))
    fine = [f"good{number}" for number in range(GOOD)]
    job = running(pool, [(key, {}) for key in [*fine[:1], *answers, *fine[1:]]], kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        while not worker.run_once().idle:
            worker.settler.drain()
    check_counters(pool, job)
    found = rows(pool, job)
    assert {found[key].status for key in fine} == {ItemState.SUCCEEDED}
    return found


@given(st.lists(returned | raised, min_size=1, max_size=6), st.sampled_from([1, 3]))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_answer_stops_a_worker(pool: Engine, given: list[object], concurrency: int) -> None:
    found = ended(pool, {f"odd{number}": answer for number, answer in enumerate(given)}, concurrency)
    for row in found.values():
        assert row.status not in (ItemState.PENDING, ItemState.RUNNING)
        if row.status in (ItemState.DLQ, ItemState.RETRY_WAIT):
            assert row.error_message
            assert row.error_class in set(ErrorClass)


@given(delays)
def test_a_delay_is_a_number_of_seconds_or_nothing(said: object) -> None:
    found = RetryLater("later", after=said).after  # type: ignore[arg-type]
    assert found is None or (type(found) is float and not math.isnan(found))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(30, 30.0), (True, None), ("30", 30.0), (Decimal("1.5"), 1.5), (10**400, float("inf")), ("soon", None)],
)
def test_what_a_delay_comes_to(said: object, seconds: float | None) -> None:
    assert outcomes.seconds(said) == seconds


def test_a_number_without_end_and_an_answer_that_changes_while_it_is_read(pool: Engine) -> None:
    found = ended(pool, {"long": Done({"n": 10**5_000}), "shifting": Done(Shifting(a=1))}, 1)
    assert [found[key].status for key in ("long", "shifting")] == [ItemState.DLQ] * 2
    assert "KeyError: 'gone'" in str(found["shifting"].error_message)


def test_whole_and_broken_seconds_in_one_batch(pool: Engine) -> None:
    """One statement takes them all."""
    answers = {"a": RetryLater("x", after=30), "b": RetryLater("x", after=0.5), "c": RetryLater("x"), "d": 7}
    found = ended(pool, {**answers, "e": Transient("x", retry_after=10**30)}, 1)
    assert [found[key].status for key in "abce"] == [ItemState.RETRY_WAIT] * 4
    assert found["d"].status == ItemState.DLQ
    assert found["e"].due_at is not None
    assert (found["e"].due_at - found["a"].due_at).total_seconds() > LONGEST_DELAY - 100
