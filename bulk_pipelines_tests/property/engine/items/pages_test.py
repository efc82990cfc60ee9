"""Whoever reads page after page while workers work loses no row, and sees no row twice that did not change."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import redrive
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Unfinished
from bulk_pipelines.engine.states import OPEN_ITEMS, ItemState
from bulk_pipelines_tests.scenes.engine_jobs import claimed, make_due, rows, running, settled
from bulk_pipelines_tests.scenes.today import examples

outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [Done({"x": 1}), RetryLater("x", after=0.0), Unfinished(), Bury("x"), NotFound("x")]
)
deeds = st.one_of(
    st.tuples(st.just("claim"), st.integers(1, 6)),
    st.tuples(st.just("settle"), outcomes, st.integers(1, 6)),
    st.tuples(st.just("redrive")),
)
wanted_statuses = st.sampled_from(
    [OPEN_ITEMS, (ItemState.PENDING,), (ItemState.PENDING, ItemState.DLQ), (ItemState.RUNNING,), tuple(ItemState)]
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(deeds, max_size=4),
    between=st.lists(st.lists(deeds, max_size=3), max_size=8),
    statuses=wanted_statuses,
    size=st.integers(1, 5),
)
def test_a_reader_among_workers(
    engine: Engine,
    before: list[tuple[object, ...]],
    between: list[list[tuple[object, ...]]],
    statuses: tuple[ItemState, ...],
    size: int,
) -> None:
    job = running(engine, 12)
    held: list[Lease] = []

    def act(deed: tuple[object, ...]) -> None:
        match deed:
            case ("claim", int(most)):
                make_due(engine, job)
                held.extend(claimed(engine, job, most))
            case ("settle", outcome, int(most)):
                settled(engine, job, held[:most], outcome)  # type: ignore[arg-type]
                del held[:most]
            case ("redrive",):
                redrive.redrive(engine, job.job_key)

    def shown_now() -> set[int]:
        return {row.item_id for row in rows(engine, job).values() if row.status in statuses}

    for deed in before:
        act(deed)
    always = shown_now()
    changed: set[int] = set()
    seen: Counter[int] = Counter()
    after = None
    turns = iter(between)
    while True:
        with transaction(engine) as connection:
            page = pages.of_job(connection, job.job_key, statuses=statuses, size=size, after=after)
        seen.update(item.item_id for item in page.items)
        if page.after is None:
            break
        after = page.after
        for deed in next(turns, []):
            was = {row.item_id: row.updated_at for row in rows(engine, job).values()}
            act(deed)
            always &= shown_now()
            changed |= {row.item_id for row in rows(engine, job).values() if row.updated_at != was[row.item_id]}
    assert always <= set(seen), "a row that was there all the time was not shown"
    assert {item_id for item_id, times in seen.items() if times > 1} <= changed, (
        "a row was shown twice without a change"
    )
