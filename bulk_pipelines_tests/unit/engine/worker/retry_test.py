"""Whether and when an item is tried again: budgets, delays, poison pills."""

import math

import psycopg
import pytest
from psycopg import errors

from bulk_pipelines.engine.outcomes import MESSAGE_LIMIT, Bury, Done, NotFound, RetryLater, Skip, Unfinished
from bulk_pipelines.engine.states import ItemEvent, ItemState
from bulk_pipelines.engine.worker.retry import (
    LONGEST_DELAY,
    Backoff,
    RetryPolicy,
    Settlement,
    Tries,
    decide,
    decide_rescue,
    outcome_of,
)
from bulk_pipelines.errors import ErrorClass, Failure, Permanent, PutOff, Throttled, Transient, Unavailable

POLICY = RetryPolicy()
FIRST = Tries(attempts=1)


def half() -> float:
    return 0.5


def test_what_went_well_is_kept() -> None:
    settled = decide(POLICY, Done({"a": 1}, {"b": 2}), FIRST, half)
    assert settled == Settlement(ItemEvent.SUCCEED, result={"a": 1}, normalized={"b": 2})
    assert settled.status is ItemState.SUCCEEDED


def test_a_skip_keeps_its_reason_and_is_no_error() -> None:
    assert decide(POLICY, Skip("a draft"), FIRST, half) == Settlement(ItemEvent.SKIP, error="a draft")


def test_what_was_not_finished_goes_back() -> None:
    assert decide(POLICY, Unfinished(), FIRST, half) == Settlement(ItemEvent.GIVE_BACK)


def test_what_cannot_succeed_is_buried_at_once() -> None:
    settled = decide(POLICY, Bury("no such column"), FIRST, half)
    assert settled == Settlement(ItemEvent.BURY, error_class=ErrorClass.PERMANENT, error="no such column")


@pytest.mark.parametrize("error_class", [ErrorClass.TRANSIENT, ErrorClass.THROTTLED, ErrorClass.UNKNOWN])
def test_the_budget_of_attempts(error_class: ErrorClass) -> None:
    outcome = RetryLater("away", error_class=error_class)
    for attempts in range(1, POLICY.max_attempts):
        assert decide(POLICY, outcome, Tries(attempts), half).event is ItemEvent.RETRY
    buried = decide(POLICY, outcome, Tries(POLICY.max_attempts), half)
    assert buried.event is ItemEvent.BURY
    assert buried.error == "away (given up after 5 attempts)"
    assert buried.error_class is error_class


def test_an_item_that_was_put_off_is_never_given_up() -> None:
    put_off = outcome_of(PutOff("not yet", 7.0))
    assert put_off == RetryLater("not yet", 7.0, ErrorClass.THROTTLED, counted=False)
    settled = decide(POLICY, put_off, Tries(POLICY.max_attempts + 1), half)
    assert (settled.event, settled.delay, settled.counted) == (ItemEvent.RETRY, 7.0, False)


def test_not_found_has_a_small_budget_of_its_own() -> None:
    first = decide(POLICY, NotFound("no page"), Tries(attempts=1), half)
    assert (first.event, first.error_class, first.error) == (ItemEvent.RETRY, ErrorClass.NOT_FOUND, "no page")
    assert first.delay == POLICY.backoffs[ErrorClass.NOT_FOUND].base / 2
    second = decide(POLICY, NotFound("no page"), Tries(attempts=2, not_found=1), half)
    assert second == Settlement(ItemEvent.MISS, error_class=ErrorClass.NOT_FOUND, error="no page")


def test_the_two_budgets_do_not_eat_each_other() -> None:
    # Five attempts, one of them a miss: four failures so far, so one more is allowed.
    assert decide(POLICY, RetryLater("away"), Tries(5, not_found=1), half).event is ItemEvent.RETRY
    assert decide(POLICY, RetryLater("away"), Tries(6, not_found=1), half).event is ItemEvent.BURY
    # Four failures do not use up the misses.
    assert decide(POLICY, NotFound(), Tries(5, not_found=0), half).event is ItemEvent.RETRY


def test_a_retry_of_the_class_not_found_is_a_miss() -> None:
    """Else it would be counted in neither budget and tried for ever."""
    outcome = RetryLater("gone", error_class=ErrorClass.NOT_FOUND)
    assert decide(POLICY, outcome, Tries(1), half).event is ItemEvent.RETRY
    assert decide(POLICY, outcome, Tries(2, not_found=1), half).event is ItemEvent.MISS


@pytest.mark.parametrize("after", [0.0, 0.25, 7.0, 5_000.0])
def test_retry_after_is_an_order(after: float) -> None:
    for outcome in (RetryLater("busy", after=after), outcome_of(Throttled("busy", retry_after=after))):
        assert decide(POLICY, outcome, FIRST, half, spacing=8.0).delay == after


@pytest.mark.parametrize("after", [math.inf, 1e300])
def test_a_retry_after_beyond_all_bounds_is_bounded(after: float) -> None:
    assert decide(POLICY, RetryLater("busy", after=after), FIRST, half).delay == LONGEST_DELAY


@pytest.mark.parametrize("after", [math.nan, -5.0])
def test_a_retry_after_that_is_none(after: float) -> None:
    assert decide(POLICY, RetryLater("busy", after=after), FIRST, half).delay in (0.0, 0.5)


def test_retry_after_does_not_lengthen_the_budget() -> None:
    assert decide(POLICY, RetryLater("busy", after=1.0), Tries(5), half).event is ItemEvent.BURY


def test_a_policy_that_names_some_classes_only() -> None:
    policy = RetryPolicy(backoffs={ErrorClass.TRANSIENT: Backoff(base=100, cap=100)})
    assert decide(policy, RetryLater("x"), FIRST, half).delay == 50
    for error_class in ErrorClass:
        settled = decide(policy, RetryLater("x", error_class=error_class), FIRST, half)
        assert settled.delay is not None
        assert 0 <= settled.delay <= 3_600


def test_a_worker_that_died_costs_the_item_an_attempt() -> None:
    settled = decide_rescue(POLICY, Tries(1, deaths=1), "lane-1", half)
    assert (settled.event, settled.error_class) == (ItemEvent.RETRY, ErrorClass.DIED)
    assert settled.error == "the lease of lane-1 ran out"
    assert settled.delay == POLICY.backoffs[ErrorClass.DIED].base / 2
    assert decide_rescue(POLICY, Tries(5, deaths=1), "lane-1", half).event is ItemEvent.BURY


def test_the_third_death_is_the_last() -> None:
    assert decide_rescue(POLICY, Tries(2, deaths=2), "lane-1", half).event is ItemEvent.RETRY
    buried = decide_rescue(POLICY, Tries(3, deaths=3), "lane-1", half)
    assert (buried.event, buried.error_class) == (ItemEvent.BURY, ErrorClass.DIED)
    assert buried.error == "poison pill: 3 workers died on it, the last one lane-1"


class Odd(Failure):
    """An error of a slice's own, of no class."""


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Transient("reset"), RetryLater("reset")),
        (Transient("reset", retry_after=3), RetryLater("reset", after=3)),
        (Throttled("429", retry_after=60), RetryLater("429", after=60, error_class=ErrorClass.THROTTLED)),
        (Throttled("503"), RetryLater("503", error_class=ErrorClass.THROTTLED)),
        (Permanent("400"), Bury("400")),
        (Odd("odd"), RetryLater("Odd: odd", error_class=ErrorClass.UNKNOWN)),
        (ZeroDivisionError("by zero"), RetryLater("ZeroDivisionError: by zero", error_class=ErrorClass.UNKNOWN)),
        (Unavailable("no server"), RetryLater("no server", error_class=ErrorClass.TRANSIENT)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_an_exception_comes_to(error: Exception, outcome: object) -> None:
    assert outcome_of(error) == outcome


@pytest.mark.parametrize("text", ["a\0b", "half \ud800", "x" * 10_000, "é" * 10_000])
def test_any_message_can_be_stored(text: str) -> None:
    for outcome in (RetryLater(text), Bury(text), Skip(text), NotFound(text)):
        message = decide(POLICY, outcome, FIRST, half).error
        assert message
        assert "\0" not in message
        assert len(message) <= MESSAGE_LIMIT
        message.encode()
    message = decide_rescue(POLICY, Tries(3, deaths=3), text, half).error
    assert message
    assert len(message) <= MESSAGE_LIMIT
    assert "\0" not in message


def test_a_message_of_full_length_stays_within_the_bound_when_it_is_given_up() -> None:
    message = decide(POLICY, RetryLater("x" * 10_000), Tries(5), half).error
    assert message is not None
    assert len(message) <= MESSAGE_LIMIT


@pytest.mark.parametrize(
    ("error", "event", "error_class"),
    [
        (errors.ProtocolViolation("insufficient data left in message"), ItemEvent.BURY, ErrorClass.PERMANENT),
        (errors.UndefinedColumn("no such column"), ItemEvent.BURY, ErrorClass.PERMANENT),
        (errors.InsufficientPrivilege("permission denied"), ItemEvent.BURY, ErrorClass.PERMANENT),
        (errors.ProgramLimitExceeded("too large for an index"), ItemEvent.BURY, ErrorClass.PERMANENT),
        (errors.DiskFull("no space"), ItemEvent.RETRY, ErrorClass.TRANSIENT),
        (errors.DeadlockDetected("deadlock"), ItemEvent.RETRY, ErrorClass.TRANSIENT),
        (errors.LockNotAvailable("locked"), ItemEvent.RETRY, ErrorClass.TRANSIENT),
        (errors.UniqueViolation("perhaps a race"), ItemEvent.RETRY, ErrorClass.UNKNOWN),
        (psycopg.OperationalError("the connection is lost"), ItemEvent.RETRY, ErrorClass.TRANSIENT),
        (psycopg.InterfaceError("the connection is closed"), ItemEvent.RETRY, ErrorClass.UNKNOWN),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else None,
)
def test_errors_of_the_database(error: psycopg.Error, event: ItemEvent, error_class: ErrorClass) -> None:
    settled = decide(POLICY, outcome_of(error), FIRST, half)
    assert (settled.event, settled.error_class) == (event, error_class)
