"""Laws of the retry decisions, for any outcome, any tries, any randomness."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished, storable
from bulk_pipelines.engine.states import ITEM_MOVES, ItemEvent, ItemState, after
from bulk_pipelines.engine.worker.retry import (
    LONGEST_DELAY,
    Backoff,
    RetryPolicy,
    Tries,
    decide,
    decide_rescue,
)
from bulk_pipelines.errors import ErrorClass

anything = st.text(st.characters(), max_size=50)
uniform = st.floats(0, 1, exclude_max=True)
spacings = st.floats(1, 64)
backoffs = st.builds(Backoff, base=st.floats(0, 1_000), cap=st.floats(0, 10_000))
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 10),
    not_found_attempts=st.integers(1, 5),
    max_deaths=st.integers(1, 5),
    backoffs=st.dictionaries(st.sampled_from(ErrorClass), backoffs),
)


@st.composite
def tries(draw: st.DrawFn) -> Tries:
    attempts = draw(st.integers(1, 100))
    return Tries(attempts, not_found=draw(st.integers(0, attempts - 1)), deaths=draw(st.integers(0, attempts)))


outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Done()),
    st.just(Unfinished()),
    st.builds(NotFound, anything),
    st.builds(Skip, anything),
    st.builds(Bury, anything, st.sampled_from(ErrorClass)),
    st.builds(RetryLater, anything, st.none() | st.floats(), st.sampled_from(ErrorClass)),
)


@given(backoffs, st.integers(-5, 10_000), uniform, spacings)
def test_full_jitter_lies_between_nothing_and_the_doubling_bound(
    backoff: Backoff, count: int, drawn: float, spacing: float
) -> None:
    delay = backoff.delay(count, lambda: drawn, spacing)
    doubled = backoff.base * 2.0 ** min(max(count - 1, 0), 60) * spacing
    assert 0 <= delay <= min(backoff.cap, doubled)
    assert backoff.delay(count, lambda: 0.0, spacing) == 0


@given(backoffs, st.integers(1, 100), spacings)
def test_bounds_grow_and_stay_under_the_cap(backoff: Backoff, count: int, spacing: float) -> None:
    assert backoff.bound(count) <= backoff.bound(count + 1) <= backoff.cap
    assert backoff.bound(count) <= backoff.bound(count, spacing) <= backoff.cap


@given(policies, outcomes, tries(), uniform, spacings)
def test_any_outcome_comes_to_something_that_can_be_written(
    policy: RetryPolicy, outcome: Outcome, behind: Tries, drawn: float, spacing: float
) -> None:
    settled = decide(policy, outcome, behind, lambda: drawn, spacing)
    assert settled.status is after(ITEM_MOVES, ItemState.RUNNING, settled.event)
    assert (settled.delay is not None) == (settled.event is ItemEvent.RETRY)
    if settled.delay is not None:
        assert 0 <= settled.delay <= LONGEST_DELAY
    if settled.status is ItemState.DLQ:
        assert settled.error is not None
        assert settled.error_class is not None
    if settled.error is not None:
        assert storable(settled.error) == settled.error


@given(policies, st.lists(outcomes, min_size=200, max_size=200), uniform)
def test_every_item_comes_to_an_end(policy: RetryPolicy, each_time: list[Outcome], drawn: float) -> None:
    """Whatever the handler says, in any order: no more tries than the two budgets allow together."""
    attempts = not_found = 0
    for outcome in each_time:
        attempts += 1
        settled = decide(policy, outcome, Tries(attempts, not_found), lambda: drawn)
        if settled.event is ItemEvent.GIVE_BACK:
            attempts -= 1
            continue
        if settled.event is not ItemEvent.RETRY:
            break
        not_found += settled.error_class is ErrorClass.NOT_FOUND
    else:
        assert all(isinstance(outcome, Unfinished) for outcome in each_time[policy.max_attempts + 5 :])
    assert attempts <= policy.max_attempts + policy.not_found_attempts


@given(policies, tries(), uniform)
def test_a_rescue_retries_or_buries(policy: RetryPolicy, behind: Tries, drawn: float) -> None:
    settled = decide_rescue(policy, behind, "w", lambda: drawn)
    spent = behind.deaths >= policy.max_deaths or behind.attempts - behind.not_found >= policy.max_attempts
    assert settled.event is (ItemEvent.BURY if spent else ItemEvent.RETRY)
    assert settled.error_class is ErrorClass.DIED


@given(st.floats(0, 10_000), tries(), uniform, spacings)
def test_retry_after_wins_over_the_policy(after_seconds: float, behind: Tries, drawn: float, spacing: float) -> None:
    patient = RetryPolicy(max_attempts=1_000)
    settled = decide(patient, RetryLater("busy", after=after_seconds), behind, lambda: drawn, spacing)
    assert settled.delay is not None
    assert math.isclose(settled.delay, after_seconds)


@given(st.text(st.characters()))
def test_storable_text_is_stored_as_it_is(text: str) -> None:
    clean = storable(text)
    clean.encode()
    assert "\0" not in clean
    assert storable(clean) == clean
