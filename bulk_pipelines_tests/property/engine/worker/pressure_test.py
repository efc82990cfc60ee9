"""Backpressure: halves in trouble, comes back by small steps, never gives up altogether."""

from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.engine.worker.pressure import Pressure, PressureLimits, after_slice

LIMITS = PressureLimits()

levels = st.floats(LIMITS.floor, 1)


@st.composite
def slices(draw: st.DrawFn) -> tuple[int, int, int]:
    """Draw how many items a slice has, how many of them were throttled, and how many failed."""
    total = draw(st.integers(0, 1_000))
    failed = draw(st.integers(0, total))
    return total, draw(st.integers(0, failed)), failed


@given(levels, st.lists(slices(), max_size=50))
def test_the_level_stays_between_its_floor_and_all(level: float, went: list[tuple[int, int, int]]) -> None:
    pressure = Pressure(level)
    for each in went:
        before, pressure = pressure, after_slice(LIMITS, pressure, *each)
        assert LIMITS.floor <= pressure.level <= 1
        assert pressure.level >= before.level / 2
        assert pressure.level <= before.level + LIMITS.recovery
        assert 1 <= pressure.spacing <= 1 / LIMITS.floor


@given(levels, slices())
def test_more_trouble_never_means_a_higher_level(level: float, went: tuple[int, int, int]) -> None:
    total, throttled, failed = went
    before = Pressure(level)
    calm = after_slice(LIMITS, before, total, 0, 0)
    assert after_slice(LIMITS, before, total, throttled, failed).level <= calm.level


@given(levels, st.integers(1, 64))
def test_something_is_always_worked(level: float, most: int) -> None:
    assert 1 <= Pressure(level).concurrency(most) <= most


def test_shares_that_mean_trouble() -> None:
    whole = Pressure()
    assert after_slice(LIMITS, whole, 100, 6, 6).level == 0.5
    assert after_slice(LIMITS, whole, 100, 5, 5).level == 1
    assert after_slice(LIMITS, whole, 100, 0, 31).level == 0.5
    assert after_slice(LIMITS, whole, 100, 0, 30).level == 1


def test_a_few_failures_say_nothing_but_one_throttled_answer_does() -> None:
    assert after_slice(LIMITS, Pressure(), 4, 0, 4).level == 1
    assert after_slice(LIMITS, Pressure(), 5, 0, 5).level == 0.5
    assert after_slice(LIMITS, Pressure(), 1, 1, 1).level == 0.5


def test_an_empty_slice_changes_nothing() -> None:
    assert after_slice(LIMITS, Pressure(0.25), 0, 0, 0).level == 0.25


def test_recovery_is_gradual() -> None:
    pressure = Pressure()
    for _ in range(10):
        pressure = after_slice(LIMITS, pressure, 10, 10, 10)
    assert pressure.level == LIMITS.floor
    calm_slices = 0
    while pressure.level < 1:
        pressure = after_slice(LIMITS, pressure, 10, 0, 0)
        calm_slices += 1
    assert calm_slices == 10
