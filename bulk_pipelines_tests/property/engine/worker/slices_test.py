"""Claim sizes, lease lengths and the mean they come from, for any measurements."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from bulk_pipelines.engine.worker.slices import Ewma, SliceLimits, claim_size, lease_seconds

seconds = st.floats(0, 1e6)
levels = st.floats(0, 1, exclude_min=True)


@st.composite
def limits(draw: st.DrawFn) -> SliceLimits:
    least = draw(st.integers(1, 100))
    floor = draw(st.floats(1, 100))
    return SliceLimits(
        target_seconds=draw(st.floats(0.01, 60)),
        safety=draw(st.floats(0.1, 1)),
        min_claim=least,
        max_claim=draw(st.integers(least, 10_000)),
        first_claim=draw(st.integers(1, 1_000)),
        lease_floor=floor,
        lease_cap=draw(st.floats(floor, 10_000)),
    )


@given(limits(), st.none() | seconds, levels)
@example(SliceLimits(), 5e-324, 1.0)
@example(SliceLimits(), 0.0, 5e-324)
def test_a_claim_stays_within_its_bounds(limits: SliceLimits, item_seconds: float | None, level: float) -> None:
    size = claim_size(limits, item_seconds, level)
    assert limits.min_claim <= size <= limits.max_claim


@given(limits(), st.floats(1e-5, 0.1), levels)
def test_a_claim_fits_into_its_slice(limits: SliceLimits, item_seconds: float, level: float) -> None:
    size = claim_size(limits, item_seconds, level)
    fits = size * item_seconds <= limits.target_seconds * limits.safety * level * (1 + 1e-9)
    assert fits or size == limits.min_claim


@given(limits(), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), levels, levels)
def test_slower_items_and_more_pressure_never_mean_more(
    limits: SliceLimits, one: float, other: float, low: float, high: float
) -> None:
    quick, slow = sorted((one, other))
    low, high = sorted((low, high))
    assert claim_size(limits, slow, high) <= claim_size(limits, quick, high)
    assert claim_size(limits, quick, low) <= claim_size(limits, quick, high)


@given(limits(), st.none() | seconds)
def test_a_lease_is_twice_an_item_within_its_bounds(limits: SliceLimits, item_seconds: float | None) -> None:
    length = lease_seconds(limits, item_seconds)
    assert limits.lease_floor <= length <= limits.lease_cap
    assert length in (limits.lease_floor, limits.lease_cap, 2 * (item_seconds or 0))


def test_the_first_claim_is_a_guess() -> None:
    assert claim_size(SliceLimits(first_claim=16), None) == 16
    assert claim_size(SliceLimits(first_claim=16), None, 0.25) == 4


@given(st.floats(0.01, 0.99), st.lists(st.floats(0, 1e3), min_size=1, max_size=30))
def test_a_mean_lies_among_what_was_observed(alpha: float, samples: list[float]) -> None:
    mean = Ewma(alpha)
    for sample in samples:
        mean = mean.observe(sample)
    assert mean.value is not None
    assert min(samples) - 1e-6 <= mean.value <= max(samples) + 1e-6


@given(st.floats(0.01, 0.99), st.floats(0, 1e3), st.floats(0, 1e3), st.integers(1, 50))
def test_a_batch_weighs_as_much_as_its_members(alpha: float, start: float, sample: float, count: int) -> None:
    together = Ewma(alpha).observe(start).observe(sample, count)
    one_by_one = Ewma(alpha).observe(start)
    for _ in range(count):
        one_by_one = one_by_one.observe(sample)
    assert together.value is not None
    assert one_by_one.value is not None
    assert math.isclose(together.value, one_by_one.value, rel_tol=1e-6, abs_tol=1e-9)
