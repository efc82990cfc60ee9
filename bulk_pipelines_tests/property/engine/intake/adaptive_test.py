"""Batch sizes: double while answers are quick, shrink on trouble, always within bounds."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer, Reason, Sample, Step, first, following

LIMITS = BatchLimits()


@st.composite
def limits(draw: st.DrawFn) -> BatchLimits:
    least = draw(st.integers(1, 100))
    return BatchLimits(
        min_rows=least,
        max_rows=draw(st.integers(least, 100_000)),
        start_rows=draw(st.integers(1, 200_000)),
        alpha=draw(st.floats(0.05, 1)),
    )


samples = st.builds(
    Sample,
    rows=st.integers(1, 100_000),
    bytes=st.integers(0, 32 * 1024 * 1024),
    seconds=st.floats(0, 10),
    waited_seconds=st.floats(0, 1),
    failed=st.booleans(),
)


@given(limits(), st.lists(samples, max_size=40))
def test_sizes_stay_within_bounds_and_are_all_recorded(limits: BatchLimits, went: list[Sample]) -> None:
    sizer = BatchSizer.within(limits)
    assert limits.min_rows <= sizer.rows <= limits.max_rows
    for sample in went:
        before = sizer.rows
        step = sizer.observe(sample)
        assert limits.min_rows <= sizer.rows <= limits.max_rows
        check_reason(step, before, limits)
    assert [step.sample for step in sizer.steps] == went
    assert not went or sizer.steps[-1].next_rows == sizer.rows


def check_reason(step: Step, before: int, limits: BatchLimits) -> None:
    """A reason says what was done, and trouble is never met with more."""
    sample = step.sample
    trouble = sample.failed or sample.seconds > limits.slow_seconds or sample.waited_seconds > limits.waited_seconds
    match step.reason:
        case Reason.FAILED | Reason.SLOW | Reason.WAITED:
            assert trouble
            assert step.next_rows < before or before == limits.min_rows
        case Reason.QUICK:
            assert not trouble
            assert step.next_rows == min(2 * before, limits.max_rows) > before
        case Reason.STEADY:
            assert not trouble
            assert step.next_rows == before


def trajectory(limits: BatchLimits, seconds_of: Callable[[int], float], batches: int) -> list[int]:
    """Return the sizes of batches that a database gets which takes so long for so many rows."""
    sizer = BatchSizer.within(limits)
    sizes = []
    for _ in range(batches):
        sizes.append(sizer.rows)
        sizer.observe(Sample(rows=sizer.rows, bytes=0, seconds=seconds_of(sizer.rows)))
    return sizes


def test_a_quick_database_is_given_twice_as_much_each_time() -> None:
    sizes = trajectory(LIMITS, lambda rows: 0.01, 12)
    assert sizes == [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 50_000, 50_000]


@given(st.floats(1e-6, 5e-3))
def test_the_size_settles_where_the_database_is_quick_enough(seconds_per_row: float) -> None:
    """Whatever a row costs: in the end a batch is not slow, and no smaller than it need be."""
    sizes = trajectory(LIMITS, lambda rows: rows * seconds_per_row, 60)
    for rows in sizes[30:]:
        assert rows * seconds_per_row <= LIMITS.slow_seconds or rows == LIMITS.min_rows
        assert rows * seconds_per_row >= LIMITS.quick_seconds / 4 or rows == LIMITS.max_rows


def test_a_slow_spell_shrinks_it_and_it_comes_back() -> None:
    sizer = BatchSizer.within(LIMITS)
    for _ in range(8):
        sizer.observe(Sample(sizer.rows, 0, 0.01))
    grown = sizer.rows
    for _ in range(3):
        assert sizer.observe(Sample(sizer.rows, 0, 5.0)).reason is Reason.SLOW
    assert sizer.rows == grown // 8
    for _ in range(3):
        assert sizer.observe(Sample(sizer.rows, 0, 0.01)).reason is Reason.QUICK
    assert sizer.rows == grown


def test_a_failure_costs_more_than_a_slow_answer() -> None:
    size = first(BatchLimits(start_rows=1024))
    assert following(size, Sample(1024, 0, 0.01, failed=True))[0].rows == 256
    assert following(size, Sample(1024, 0, 2.0))[0].rows == 512
    assert following(size, Sample(1024, 0, 0.01, waited_seconds=0.2))[0].rows == 512


def test_a_short_last_batch_says_nothing_about_a_full_one() -> None:
    size = first(BatchLimits(start_rows=1024))
    assert following(size, Sample(3, 100, 0.001)) == (following(size, Sample(3, 100, 0.001))[0], Reason.STEADY)
    # Short in rows because it was full in bytes is full.
    assert following(size, Sample(3, LIMITS.max_bytes, 0.001))[1] is Reason.QUICK
