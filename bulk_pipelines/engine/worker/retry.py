"""Decisions about whether and when an item is tried again. Nothing is written here."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

from bulk_pipelines.database import faults
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished, storable
from bulk_pipelines.engine.states import ITEM_MOVES, ItemEvent, ItemState, target
from bulk_pipelines.errors import BulkError, ErrorClass, Failure

LONGEST_DELAY = 365 * 86_400.0
"""The longest delay, in seconds. No server means more than a year; when one sends nonsense, the settlement must not
fail by it."""

Random = Callable[[], float]
"""Returns a random number, uniform in [0, 1)."""

# Python 3.11 looks a member of an enum up by a call, which is too slow for what happens with every item.
SUCCEED = ItemEvent.SUCCEED
STATE_AFTER = {event: target(ITEM_MOVES, event) for event in ItemEvent}


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff with full jitter: a delay lies anywhere between zero and a bound that doubles with each try.
    `spacing` stretches the bound."""

    base: float
    cap: float

    def bound(self, tries: int, spacing: float = 1.0) -> float:
        doublings = min(max(tries - 1, 0), 60)
        return min(self.cap, self.base * 2.0**doublings * spacing)

    def delay(self, tries: int, random: Random, spacing: float = 1.0) -> float:
        return self.bound(tries, spacing) * random()


BACKOFFS: Mapping[ErrorClass, Backoff] = {
    ErrorClass.TRANSIENT: Backoff(base=1, cap=300),
    ErrorClass.THROTTLED: Backoff(base=5, cap=600),
    ErrorClass.UNKNOWN: Backoff(base=5, cap=600),
    ErrorClass.NOT_FOUND: Backoff(base=30, cap=3600),
    ErrorClass.DIED: Backoff(base=1, cap=60),
}


@dataclass(frozen=True)
class RetryPolicy:
    """How often an item is tried, and how far apart. Counts are tries in all, the first one included."""

    max_attempts: int = 5
    not_found_attempts: int = 2
    max_deaths: int = 3
    backoffs: Mapping[ErrorClass, Backoff] = field(default_factory=lambda: BACKOFFS)

    def backoff(self, error_class: ErrorClass) -> Backoff:
        """Return the backoff of this class of errors: the policy's own, or the default where the policy names none."""
        return self.backoffs.get(error_class) or BACKOFFS.get(error_class, BACKOFFS[ErrorClass.UNKNOWN])


class Tries(NamedTuple):
    """How often an item was tried, the try that just ended included: attempts in all, those that found nothing, and
    those in which the worker died."""

    attempts: int
    not_found: int = 0
    deaths: int = 0


class Settlement(NamedTuple):
    """What is to be written for an item that was worked."""

    event: ItemEvent
    delay: float | None = None
    result: dict[str, Any] | None = None
    normalized: dict[str, Any] | None = None
    error_class: ErrorClass | None = None
    error: str | None = None
    counted: bool = True
    """Whether the try counts as an attempt; a give-back never does."""

    @property
    def status(self) -> ItemState:
        return STATE_AFTER[self.event]


def outcome_of(error: Exception) -> Outcome:
    """Return the outcome that a handler's exception stands for. Nothing else makes outcomes of exceptions."""
    error_class = class_of(error)
    said = outcomes.text(error)
    if error_class is ErrorClass.UNKNOWN:
        return RetryLater(f"{type(error).__name__}: {said}", error_class=error_class)
    if error_class is ErrorClass.PERMANENT:
        return Bury(said)
    if isinstance(error, Failure):
        return RetryLater(said, after=error.retry_after, error_class=error_class, counted=error.counted)
    return RetryLater(said, error_class=error_class)


def class_of(error: Exception) -> ErrorClass:
    """Return the class of an error, by which retries and backoff go."""
    if isinstance(error, psycopg.Error):
        return of_the_database(error)
    said = type(error).error_class if isinstance(error, BulkError) else None
    return said if isinstance(said, ErrorClass) else ErrorClass.UNKNOWN


def of_the_database(error: psycopg.Error) -> ErrorClass:
    if faults.passes(error):
        return ErrorClass.TRANSIENT
    return ErrorClass.PERMANENT if faults.lasts(error) else ErrorClass.UNKNOWN


def decide(policy: RetryPolicy, outcome: Outcome, tries: Tries, random: Random, spacing: float = 1.0) -> Settlement:
    """Turn an outcome into a settlement. `spacing` stretches the delays while the other side is in trouble."""
    match outcome:
        case Done(result, normalized):
            return Settlement(SUCCEED, result=result, normalized=normalized)
        case Unfinished():
            return Settlement(ItemEvent.GIVE_BACK)
        case Skip(reason, result):
            return Settlement(ItemEvent.SKIP, result=result, error=storable(reason))
        case Bury(error, error_class, result):
            return buried(error, error_class)._replace(result=result)
        case NotFound(reason, result):
            missed = decide_not_found(policy, storable(reason), None, tries, random, spacing)
            return missed._replace(result=result)
        case RetryLater(error, after, error_class, result, counted):
            failed = decide_retry(
                policy, storable(error), after, error_class, tries, random, spacing, counted=bool(counted)
            )
            return failed._replace(result=result)


def buried(error: str, error_class: ErrorClass = ErrorClass.PERMANENT) -> Settlement:
    return Settlement(ItemEvent.BURY, error_class=error_class, error=storable(error))


def decide_not_found(
    policy: RetryPolicy, reason: str, after: float | None, tries: Tries, random: Random, spacing: float
) -> Settlement:
    misses = tries.not_found + 1
    if misses >= policy.not_found_attempts:
        return Settlement(ItemEvent.MISS, error_class=ErrorClass.NOT_FOUND, error=reason)
    delay = delay_of(policy, ErrorClass.NOT_FOUND, after, misses, random, spacing)
    return Settlement(ItemEvent.RETRY, delay=delay, error_class=ErrorClass.NOT_FOUND, error=reason)


def decide_retry(
    policy: RetryPolicy,
    error: str,
    after: float | None,
    error_class: ErrorClass,
    tries: Tries,
    random: Random,
    spacing: float,
    *,
    counted: bool = True,
) -> Settlement:
    if error_class is ErrorClass.NOT_FOUND:
        return decide_not_found(policy, error, after, tries, random, spacing)
    failures = tries.attempts - tries.not_found
    if counted and failures >= policy.max_attempts:
        reason = storable(error, f" (given up after {failures} attempts)")
        return Settlement(ItemEvent.BURY, error_class=error_class, error=reason)
    delay = delay_of(policy, error_class, after, failures, random, spacing)
    return Settlement(ItemEvent.RETRY, delay=delay, error_class=error_class, error=error, counted=counted)


def delay_of(
    policy: RetryPolicy, error_class: ErrorClass, after: float | None, tries: int, random: Random, spacing: float
) -> float:
    """Return the seconds to wait before the next try. A server's own Retry-After is an order, not a hint: it is not
    shortened by jitter, and only LONGEST_DELAY caps it."""
    if after is None or math.isnan(after):
        return policy.backoff(error_class).delay(tries, random, spacing)
    return min(max(after, 0.0), LONGEST_DELAY)


def decide_rescue(policy: RetryPolicy, tries: Tries, owner: str, random: Random) -> Settlement:
    """Return the settlement of an item whose lease ran out. `tries.deaths` includes this death."""
    if tries.deaths >= policy.max_deaths:
        reason = f"poison pill: {tries.deaths} workers died on it, the last one {owner}"
        return Settlement(ItemEvent.BURY, error_class=ErrorClass.DIED, error=storable(reason))
    lost = f"the lease of {owner} ran out"
    return decide_retry(policy, storable(lost), None, ErrorClass.DIED, tries, random, 1.0)
