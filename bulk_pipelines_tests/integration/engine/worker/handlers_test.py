"""What a handler's answer or exception comes to, and the preparation of a whole claim."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip
from bulk_pipelines.engine.states import ItemState
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import ErrorClass, Permanent, Throttled, Transient
from bulk_pipelines_tests.scenes.engine_jobs import check_counters, expire, kind, only, rows, running


def failing(error: Exception) -> Callable[[Lease, Tools], Outcome]:
    def work(lease: Lease, tools: Tools) -> Outcome:
        raise error

    return work


def answering(answer: Any) -> Callable[[Lease, Tools], Outcome]:
    return lambda lease, tools: answer


@pytest.mark.parametrize(
    ("handle", "status", "error_class", "message"),
    [
        (answering(Done({"a": 1})), ItemState.SUCCEEDED, None, None),
        (answering(Skip("a draft")), ItemState.SKIPPED, None, "a draft"),
        (answering(Bury("no such column")), ItemState.DLQ, "permanent", "no such column"),
        (answering(RetryLater("away")), ItemState.RETRY_WAIT, "transient", "away"),
        (answering(NotFound("no page")), ItemState.RETRY_WAIT, "not_found", "no page"),
        (failing(Transient("reset")), ItemState.RETRY_WAIT, "transient", "reset"),
        (failing(Throttled("429", 60)), ItemState.RETRY_WAIT, "throttled", "429"),
        (failing(Permanent("400")), ItemState.DLQ, "permanent", "400"),
        (failing(ValueError("odd\0one")), ItemState.RETRY_WAIT, "unknown", "ValueError: odd\ufffdone"),
        (failing(RecursionError("\ud800")), ItemState.RETRY_WAIT, "unknown", "RecursionError: ?"),
        (answering(None), ItemState.DLQ, "permanent", "NoneType"),
        (answering({"a": 1}), ItemState.DLQ, "permanent", "dict"),
        (answering(Done({"a": float("nan")})), ItemState.DLQ, "permanent", "result"),
        (answering(Done({"a": object()})), ItemState.DLQ, "permanent", "result"),
        (answering(Done({"a": "x" * 2_000_000})), ItemState.DLQ, "permanent", "result"),
        (answering(Done({}, {"a": "b\0"})), ItemState.DLQ, "permanent", "normalized"),
        (answering(Done([1, 2])), ItemState.DLQ, "permanent", "result"),  # type: ignore[arg-type]
        (answering(RetryLater("x", after=float("inf"))), ItemState.RETRY_WAIT, "transient", "x"),
    ],
)
def test_what_a_handler_comes_to_and_its_neighbours_do_not_suffer(
    pool: Engine,
    handle: Callable[[Lease, Tools], Outcome],
    status: ItemState,
    error_class: str | None,
    message: str | None,
) -> None:
    def work(lease: Lease, tools: Tools) -> Outcome:
        return handle(lease, tools) if lease.item_key == "k0001" else Done({"n": lease.input["n"]})

    kinds = only(kind(work))
    job = running(pool, 3, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert worker.run_once().tally.total == 3
    found_rows = rows(pool, job)
    row = found_rows["k0001"]
    assert (row.status, row.error_class) == (status, error_class)
    if message is not None:
        assert message in str(row.error_message)
    assert [found_rows[key].result for key in ("k0000", "k0002")] == [{"n": 0}, {"n": 2}]
    check_counters(pool, job)


def test_retry_after_is_when_it_is_due(pool: Engine) -> None:
    kinds = only(kind(failing(Throttled("429", 120))))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        worker.run_once()
    with transaction(pool) as connection:
        (wait,) = connection.execute(  # type: ignore[misc]
            "SELECT extract(epoch FROM due_at - updated_at)::float8 FROM job_item WHERE job_id = %s", [job.job_id]
        ).fetchone()
    assert wait == pytest.approx(120, abs=0.001)


def test_a_lease_that_is_lost_on_the_way_is_dropped(pool: Engine) -> None:
    caught: list[type[Exception]] = []

    def work(lease: Lease, tools: Tools) -> Outcome:
        if lease.lease_term == 1:
            expire(pool, [lease])
            rescue.run_once(pool, kinds, lambda: 0.0, job.job_id)
        try:
            with transaction(tools.pool) as connection:
                tools.hold(connection, lease)
        except LeaseLost as lost:
            caught.append(type(lost))
            raise
        return Done({"term": lease.lease_term})

    kinds = only(kind(work))
    job = running(pool, 1, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        worker.run_once()
        worker.settler.drain()
        (row,) = rows(pool, job).values()
        assert (row.status, row.lease_term, row.death_count) == (ItemState.RETRY_WAIT, 2, 1)
        assert worker.settler.lost_count == 1
        worker.run_once()
    (row,) = rows(pool, job).values()
    assert (row.status, row.result) == (ItemState.SUCCEEDED, {"term": 3})
    assert caught == [LeaseLost]
    check_counters(pool, job)


def test_a_claim_is_prepared_at_once_and_its_items_see_it(pool: Engine) -> None:
    calls: list[int] = []

    def prepare(claimed: Sequence[Lease], tools: Tools) -> None:
        calls.append(len(claimed))
        tools.prepared = {lease.item_id: lease.item_key.upper() for lease in claimed}

    def work(lease: Lease, tools: Tools) -> Outcome:
        return Done({"prepared": tools.prepared[lease.item_id]})

    kinds = only(kind(work, prepare=prepare, slices=SliceLimits(first_claim=4, max_claim=4)))
    job = running(pool, 8, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        assert [worker.run_once().claimed for _ in range(3)] == [4, 4, 0]
    assert calls == [4, 4]
    assert {key: row.result for key, row in rows(pool, job).items()} == {
        key: {"prepared": key.upper()} for key in rows(pool, job)
    }


def test_a_preparation_that_fails_is_the_outcome_of_its_items(pool: Engine) -> None:
    def prepare(claimed: Sequence[Lease], tools: Tools) -> None:
        raise Throttled("429", retry_after=30)

    kinds = only(kind(answering(Done()), prepare=prepare))
    job = running(pool, 6, kinds=kinds)
    with Worker(pool, kinds, job) as worker:
        slice_ = worker.run_once()
        assert (slice_.claimed, slice_.left, slice_.idle) == (6, 0, False)
        assert (slice_.tally.total, slice_.tally.throttled) == (6, 6)
        assert worker.pace.pressure.level == 0.5, "the other side asked for less"
    found_rows = rows(pool, job).values()
    assert {(row.status, row.error_class, row.attempt_count) for row in found_rows} == {
        (ItemState.RETRY_WAIT, ErrorClass.THROTTLED, 1)
    }
    check_counters(pool, job)
