"""The arithmetic of limits against a slow reading of what they promise."""

from hypothesis import given
from hypothesis import strategies as st

from bulk_pipelines.engine.rate_limit import Limit, State, Window, begun, ended

moments = st.floats(0, 3, allow_nan=False)
limits = st.builds(
    Limit,
    st.just("x"),
    st.lists(st.builds(Window, st.integers(1, 4), st.floats(0.1, 5)), max_size=2).map(tuple),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5]),
    st.just(1_000.0),
)


@given(limits, st.lists(st.tuples(st.booleans(), moments), max_size=60))
def test_never_more_than_allowed_whenever_the_other_side_counts(limit: Limit, steps: list[tuple[bool, float]]) -> None:
    """Each use may be counted at its beginning, at its end, or between: no window is ever too full."""
    state, now = State(), 1_000.0
    uses: dict[int, list[float]] = {}
    under_way: list[int] = []
    for finish, pause in steps:
        now += pause
        if finish and under_way:
            number = under_way.pop(0)
            state = ended(limit, state, number, now, failed=False, block=None)
            uses[number].append(now)
            continue
        before = state
        state, grant = begun(limit, state, now)
        if grant.number is None:
            assert grant.wait_seconds > 0
            continue
        assert len(before.held) < limit.at_once
        assert before.last_begun is None or now - before.last_begun >= limit.gap - 1e-9
        uses[grant.number] = [now]
        under_way.append(grant.number)
    for window in limit.windows:
        for count in (min, max):
            counted = sorted(count(use) for use in uses.values())
            for first, last in zip(counted, counted[window.most :], strict=False):
                assert last - first >= window.seconds - 1e-6


@given(limits, st.integers(1, 12))
def test_waiting_as_long_as_it_says_is_enough_when_nothing_is_under_way(limit: Limit, uses: int) -> None:
    state, now = State(), 1_000.0
    for _ in range(uses):
        state, grant = begun(limit, state, now)
        if grant.number is None:
            now += grant.wait_seconds + 1e-6
            state, grant = begun(limit, state, now)
        assert grant.number is not None
        state = ended(limit, state, grant.number, now, failed=False, block=None)
