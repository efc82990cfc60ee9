"""Whether and when an item is tried again. Decisions only; nothing is written here."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

from bulk_pipelines.database import faults
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.errors import ErrorClass
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished
from bulk_pipelines.engine.states import ITEM_MOVES, ItemEvent, ItemState, target
from bulk_pipelines.errors import BulkError, Unavailable

MESSAGE_LIMIT = 2_000
LONGEST_DELAY = 365 * 86_400.0
"""Seconds. No server means more than a year; one that sends nonsense must not be what fails the settlement."""

Random = Callable[[], float]
"""Uniform in [0, 1)."""

# Python 3.11 looks a member of an enum up by a call: too slow for what happens with every item.
SUCCEED = ItemEvent.SUCCEED
STATE_AFTER = {event: target(ITEM_MOVES, event) for event in ItemEvent}


@dataclass(frozen=True)
class Backoff:
    """Exponential, with full jitter: anywhere between nothing and the doubling bound, which `spacing` stretches."""

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
    """How often and how far apart. Counts are tries in all, the first one included."""

    max_attempts: int = 5
    not_found_attempts: int = 2
    max_deaths: int = 3
    backoffs: Mapping[ErrorClass, Backoff] = field(default_factory=lambda: BACKOFFS)

    def backoff(self, error_class: ErrorClass) -> Backoff:
        """A policy may name some classes only."""
        return self.backoffs.get(error_class) or BACKOFFS.get(error_class, BACKOFFS[ErrorClass.UNKNOWN])


class Tries(NamedTuple):
    """What an item has behind it, the try that just ended included."""

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

    @property
    def status(self) -> ItemState:
        return STATE_AFTER[self.event]


def outcome_of(error: Exception) -> Outcome:
    """The one place where a handler's exception becomes an outcome."""
    error_class = class_of(error)
    said = outcomes.text(error)
    if error_class is ErrorClass.UNKNOWN:
        return RetryLater(f"{type(error).__name__}: {said}", error_class=error_class)
    if error_class is ErrorClass.PERMANENT:
        return Bury(said)
    return RetryLater(said, after=attribute(error, "retry_after"), error_class=error_class)


def attribute(error: Exception, name: str) -> Any:
    """What an error says of itself; looking at it may be somebody's own code."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - then it says nothing
        return None


def class_of(error: Exception) -> ErrorClass:
    """As the error says itself (HandlerError, and the storages' errors); else by what kind of error it is."""
    said = attribute(error, "error_class")
    if isinstance(said, str) and said in set(ErrorClass):
        return ErrorClass(said)
    if isinstance(error, Unavailable):
        return ErrorClass.TRANSIENT
    if isinstance(error, psycopg.Error):
        return of_the_database(error)
    return ErrorClass.PERMANENT if isinstance(error, BulkError) else ErrorClass.UNKNOWN


def of_the_database(error: psycopg.Error) -> ErrorClass:
    if faults.passes(error):
        return ErrorClass.TRANSIENT
    return ErrorClass.PERMANENT if faults.lasts(error) else ErrorClass.UNKNOWN


def decide(policy: RetryPolicy, outcome: Outcome, tries: Tries, random: Random, spacing: float = 1.0) -> Settlement:
    """`spacing` stretches the delays while the other side is in trouble."""
    match outcome:
        case Done(result, normalized):
            return Settlement(SUCCEED, result=result, normalized=normalized)
        case Unfinished():
            return Settlement(ItemEvent.GIVE_BACK)
        case Skip(reason):
            return Settlement(ItemEvent.SKIP, error=storable(reason))
        case Bury(error, error_class):
            return buried(error, error_class)
        case NotFound(reason):
            return decide_not_found(policy, storable(reason), None, tries, random, spacing)
        case RetryLater(error, after, error_class):
            return decide_retry(policy, storable(error), after, error_class, tries, random, spacing)


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
) -> Settlement:
    if error_class is ErrorClass.NOT_FOUND:
        return decide_not_found(policy, error, after, tries, random, spacing)
    failures = tries.attempts - tries.not_found
    if failures >= policy.max_attempts:
        reason = storable(error, f" (given up after {failures} attempts)")
        return Settlement(ItemEvent.BURY, error_class=error_class, error=reason)
    delay = delay_of(policy, error_class, after, failures, random, spacing)
    return Settlement(ItemEvent.RETRY, delay=delay, error_class=error_class, error=error)


def delay_of(
    policy: RetryPolicy, error_class: ErrorClass, after: float | None, tries: int, random: Random, spacing: float
) -> float:
    """A server's own Retry-After is an order, not a hint: no jitter below it, no cap but what a clock can hold."""
    if after is None or math.isnan(after):
        return policy.backoff(error_class).delay(tries, random, spacing)
    return min(max(after, 0.0), LONGEST_DELAY)


def decide_rescue(policy: RetryPolicy, tries: Tries, owner: str, random: Random) -> Settlement:
    """For an item whose lease ran out. `tries.deaths` includes this one."""
    if tries.deaths >= policy.max_deaths:
        reason = f"poison pill: {tries.deaths} workers died on it, the last one {owner}"
        return Settlement(ItemEvent.BURY, error_class=ErrorClass.DIED, error=storable(reason))
    lost = f"the lease of {owner} ran out"
    return decide_retry(policy, storable(lost), None, ErrorClass.DIED, tries, random, 1.0)


def storable(text: str, ending: str = "") -> str:
    """Bounded, and free of what PostgreSQL's text cannot hold: an error message must never be what fails."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    room = MESSAGE_LIMIT - len(ending)
    return (clean if len(clean) <= room else clean[: room - 1] + "…") + ending
