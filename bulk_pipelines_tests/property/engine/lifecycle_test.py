"""The lives of jobs and items: workers do what workers do in any order, against a real PostgreSQL and a small model.

The model knows what each statement has to do by the contract alone: who holds which lease, what a settlement writes,
what is counted. After every step the tables are compared with it, and the record that triggers keep of all moves is
checked. Time does not pass by itself: leases and waits run out when the test says so.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine

from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import IdempotencyConflict, LeaseLost, WrongState
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.items import leases, rescue, settling
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.jobs import dlq, end, jobs, redrive, submission
from bulk_pipelines.engine.jobs.end import verdict
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Request
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished
from bulk_pipelines.engine.states import (
    FINISHED_JOBS,
    JOB_MOVES,
    ItemEvent,
    ItemState,
    JobEvent,
    JobState,
    after,
    sources,
)
from bulk_pipelines.engine.worker import retry
from bulk_pipelines.engine.worker.retry import Backoff, RetryPolicy
from bulk_pipelines.errors import Conflict, ErrorClass
from bulk_pipelines_tests.property.engine.model import Held, Model, Thing, check_row
from bulk_pipelines_tests.scenes import engine_log
from bulk_pipelines_tests.scenes.engine_jobs import FAR, HELD_AND_NOT_FOUND, Row, done, rows_of, run_out
from bulk_pipelines_tests.scenes.today import examples

WORKERS = 3


# A wait is over at once or never: the draw says which.
POLICY = RetryPolicy(
    max_attempts=3, not_found_attempts=2, max_deaths=2, backoffs=dict.fromkeys(ErrorClass, Backoff(FAR, FAR))
)


draws = st.sampled_from([0.0, 0.9])
KINDS = Kinds([Kind("work", done, retry=POLICY), Kind("hasty", done, retry=POLICY, fail_fast=True)])
OPEN_JOBS = [state for state in JobState if state not in FINISHED_JOBS]
WAITING = (ItemState.PENDING, ItemState.RETRY_WAIT)
places = st.integers(0, 1_000)
"""Which of what there is; the rest of the division says."""
lengths = st.sampled_from([FAR, FAR / 2])
"""The lengths of leases: workers that grow quicker ask for shorter ones."""
leases_chosen = st.lists(places, min_size=1, max_size=6)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Done, st.fixed_dictionaries({"mark": st.integers(0, 10**9)})),
    st.just(NotFound()),
    st.just(Skip("not wanted")),
    st.builds(RetryLater, st.just("away"), st.sampled_from([None, 0.0, FAR])),
    st.just(Bury("bad")),
    st.just(Unfinished()),
)


class Lifecycle(RuleBasedStateMachine):
    pool: Engine
    connections: Sequence[psycopg.Connection[Any]]

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Model] = []
        self.held: list[Held] = []
        self.logged = 0
        self.settlements = 0
        with transaction(self.pool) as connection:
            for table in ("job", "item_log", "job_log"):
                connection.execute(f"DELETE FROM {table}")

    # What workers and people do.

    @initialize(fail_fast=st.booleans(), count=st.integers(1, 8))
    def begin(self, fail_fast: bool, count: int) -> None:
        """Begin with something to work, so that no run is spent on empty tables."""
        self.submit(0, fail_fast, None)
        self.add(0, 0, 0, count)
        self.move_job(0, 0, JobEvent.START)

    @precondition(lambda self: len(self.models) < 3 or not self.any_open())
    @rule(who=places, fail_fast=st.booleans(), key=st.none() | st.sampled_from("abc"))
    def submit(self, who: int, fail_fast: bool, key: str | None) -> None:
        kind = "hasty" if fail_fast else "work"
        with self.worker(who) as connection:
            request = Request(kind, f"owner {len(self.models) % 2}", {}, idempotency_key=key)
            named = None
            try:
                given = submission.submit(connection, KINDS, request)
            except IdempotencyConflict as conflict:
                named = conflict.job_key
        if named is not None:
            assert [model.fail_fast for model in self.models if model.job_key == named] == [not fail_fast]
            return
        known = [model for model in self.models if model.job_key == given.job.job_key]
        assert given.created == (not known)
        if given.created:
            self.models.append(Model(given.job.job_id, given.job.job_key, fail_fast))

    @precondition(lambda self: self.any_open())
    @rule(who=places, which=places, first=st.integers(0, 12), count=st.integers(1, 8))
    def add(self, who: int, which: int, first: int, count: int) -> None:
        """Add items to a job. Some of their keys may be there already."""
        model = self.model(which)
        keys = [f"k{number}" for number in range(first, first + count)]
        sizer = BatchSizer.within(BatchLimits(min_rows=1, start_rows=2))
        allowed = model.state in OPEN_JOBS and not model.planned
        try:
            added = persist.add_items(self.pool, model.job_id, [(key, {"key": key}) for key in keys], sizer)
        except Conflict:
            assert not allowed
            return
        assert allowed
        new = [key for key in keys if key not in model.things]
        assert added == len(new)
        model.things.update((key, Thing(key)) for key in new)

    @precondition(lambda self: self.settlements > 5 and self.any_open())
    @rule(who=places, which=places)
    def seal(self, who: int, which: int) -> None:
        model = self.model(which)
        with self.worker(who) as connection:
            jobs.seal(connection, model.job_id)
        model.planned = True

    @rule(who=places, which=places, most=st.integers(1, 6))
    def claim(self, who: int, which: int, most: int) -> None:
        model = self.model(which)
        with self.worker(who) as connection:
            given = leases.claim(connection, model.job_id, owner=f"w{who % WORKERS}", most=most, lease_seconds=FAR)
        taken = [model.things[lease.item_key] for lease in given]
        self.check_claim(model, taken, most)
        for lease, thing in zip(given, taken, strict=True):
            thing.status, thing.expired, thing.owner = ItemState.RUNNING, False, f"w{who % WORKERS}"
            thing.term += 1
            thing.attempts += 1
            assert (lease.lease_term, lease.tries) == (thing.term, thing.tries)
            assert lease.input == {"key": thing.key}
            assert lease.checkpoint == thing.checkpoint
            self.held.append(Held(model, lease))

    def check_claim(self, model: Model, taken: list[Thing], most: int) -> None:
        """Check that a suspect was taken alone; else as many as there are, due retries before what is pending."""
        ready = [thing for thing in model.things.values() if thing.claimable]
        if model.state is not JobState.RUNNING:
            assert taken == []
            return
        assert all(thing.claimable for thing in taken)
        assert len({thing.key for thing in taken}) == len(taken)
        suspects = [thing for thing in ready if thing.status is ItemState.RETRY_WAIT and thing.deaths]
        if suspects:
            assert len(taken) == 1
            assert taken[0] in suspects
            return
        assert len(taken) == min(most, len(ready))
        due = [thing for thing in ready if thing.status is ItemState.RETRY_WAIT]
        assert sum(thing in due for thing in taken) == min(most, len(due))

    @precondition(lambda self: self.held)
    @rule(who=places, which=leases_chosen, in_time=st.booleans(), outcome=outcomes, draw=draws)
    def settle(self, who: int, which: list[int], in_time: bool, outcome: Outcome, draw: float) -> None:
        """Settle leases of one job: valid ones, or any that anybody ever had, rescued, taken by others, settled
        before."""
        self.write_settlement(who, self.of_one_job(which, in_time), outcome, draw)

    def write_settlement(self, who: int, chosen: list[Held], outcome: Outcome, draw: float) -> None:
        self.settlements += 1
        model = chosen[0].model
        batch = []
        for held in chosen:
            decided = retry.decide(POLICY, outcome, held.lease.tries, lambda: draw)
            batch.append(Settled(held.lease.item_id, held.lease.lease_term, decided))
        with self.worker(who) as connection:
            written = settling.write(connection, model.job_id, batch)
        lost = {(each.item_id, each.lease_term) for each in written.lost}
        valid = [(held, each) for held, each in zip(chosen, batch, strict=True) if held.valid]
        invalid = {(held.lease.item_id, held.lease.lease_term) for held in chosen if not held.valid}
        # The answer goes by items: when an item was given under two terms, one of them is the one that counted.
        settled_items = {held.lease.item_id for held, _ in valid}
        assert {each for each in lost if each[0] not in settled_items} == {
            each for each in invalid if each[0] not in settled_items
        }
        for held, each in valid:
            self.settled(held.thing, each)
        self.failed_fast(model, valid)
        self.cancelled_on_the_way(model, [held.thing for held, _ in valid])
        assert (written.job_status, written.open_items) == (
            (model.state, model.count(*WAITING, ItemState.RUNNING)) if valid else (None, None)
        )

    @rule(who=places, which=places, most=st.integers(1, 6), outcome=outcomes, draw=draws)
    def work(self, who: int, which: int, most: int, outcome: Outcome, draw: float) -> None:
        """Claim items and settle them, as a worker does when nothing comes between."""
        before = len(self.held)
        self.claim(who, which, most)
        if given := self.held[before:]:
            self.write_settlement(who, given, outcome, draw)

    def settled(self, thing: Thing, each: Settled, rescued: bool = False) -> None:
        decided = each.settlement
        thing.status = decided.status
        thing.due = decided.delay == 0.0
        thing.result = decided.result if decided.result is not None else thing.result
        if decided.event is ItemEvent.GIVE_BACK:
            thing.attempts -= 1
            return
        thing.misses += decided.error_class == "not_found"
        thing.deaths = thing.deaths + 1 if rescued else 0
        thing.term += rescued

    def failed_fast(self, model: Model, valid: Sequence[tuple[object, Settled]]) -> None:
        buried = any(each.settlement.event is ItemEvent.BURY for _, each in valid)
        if model.fail_fast and buried and model.state in sources(JOB_MOVES, JobEvent.FAIL):
            model.state = JobState.FAILED

    def cancelled_on_the_way(self, model: Model, things: list[Thing]) -> None:
        """A settlement that leaves something waiting in a cancelled job cancels all that waits."""
        if model.state is JobState.CANCELLED and any(thing.status in WAITING for thing in things):
            self.cancel_waiting(model)

    @precondition(lambda self: self.held)
    @rule(
        who=places, which=places, in_time=st.booleans(), hold=st.booleans(), mark=st.integers(0, 10**9), seconds=lengths
    )
    def checkpoint(self, who: int, which: int, in_time: bool, hold: bool, mark: int, seconds: float) -> None:
        (held,) = self.of_one_job([which], in_time)
        try:
            with self.worker(who) as connection:
                if hold:
                    leases.hold(connection, held.lease)
                leases.checkpoint(connection, held.lease, {"mark": mark}, seconds)
        except LeaseLost:
            assert not held.valid
            return
        assert held.valid
        thing = held.thing
        thing.checkpoint, thing.expired = {"mark": mark}, False
        thing.attempts, thing.misses, thing.deaths = 1, 0, 0

    @precondition(lambda self: self.held)
    @rule(who=places, which=leases_chosen, seconds=lengths)
    def renew(self, who: int, which: list[int], seconds: float) -> None:
        chosen = [self.held[each % len(self.held)] for each in which]
        with self.worker(who) as connection:
            kept = leases.renew(connection, [held.lease for held in chosen], seconds)
        assert kept == {held.lease.item_id for held in chosen if held.valid}
        for held in chosen:
            if held.valid:
                held.thing.expired = False

    @precondition(lambda self: self.any(ItemState.RUNNING))
    @rule(which=leases_chosen)
    def silence(self, which: list[int]) -> None:
        """Let leases run out: their workers are dead, or slow, and may still come back."""
        self.expire(self.of_one_job(which, in_time=True))

    def expire(self, gone: list[Held]) -> None:
        with transaction(self.pool) as connection:
            run_out(connection, [held.lease.item_id for held in gone if held.valid])
        for held in gone:
            held.thing.expired = held.valid

    @rule(who=places, which=places, most=st.integers(1, 6))
    def die(self, who: int, which: int, most: int) -> None:
        """A worker claims and is not heard of again; its items are rescued."""
        before = len(self.held)
        self.claim(who, which, most)
        if given := self.held[before:]:
            self.expire(given)
            self.rescue(which)

    @precondition(lambda self: self.any(ItemState.RETRY_WAIT))
    @rule(which=places)
    def time_passes(self, which: int) -> None:
        """Let every wait of a job be over."""
        model = self.model(which)
        with transaction(self.pool) as connection:
            connection.execute(
                "UPDATE job_item SET due_at = now() - interval '1 minute' WHERE job_id = %s AND status = 'RETRY_WAIT'",
                [model.job_id],
            )
        for thing in model.things.values():
            thing.due = thing.due or thing.status is ItemState.RETRY_WAIT

    @precondition(lambda self: self.any_expired())
    @rule(which=st.none() | places)
    def rescue(self, which: int | None) -> None:
        """Rescue the items of one job, or of all."""
        model = None if which is None else self.model(which)
        found = rescue.run_once(self.pool, KINDS, lambda: 0.0, None if model is None else model.job_id)
        total = 0
        for each in self.models if model is None else [model]:
            total += self.rescued(each)
        assert found.items == total

    def rescued(self, model: Model) -> int:
        lost = [thing for thing in model.things.values() if thing.status is ItemState.RUNNING and thing.expired]
        written = []
        for thing in lost:
            tries = thing.tries._replace(deaths=thing.deaths + 1)
            decided = retry.decide_rescue(POLICY, tries, str(thing.owner), lambda: 0.0)
            written.append((thing, Settled(0, thing.term, decided)))
            self.settled(thing, written[-1][1], rescued=True)
        self.failed_fast(model, written)
        self.cancelled_on_the_way(model, lost)
        return len(lost)

    @precondition(lambda self: self.settlements > 10)
    @rule(who=places, which=places)
    def fail(self, who: int, which: int) -> None:
        self.move_job(who, which, JobEvent.FAIL)

    @precondition(lambda self: self.settlements > 2)
    @rule(who=places, which=places)
    def pause(self, who: int, which: int) -> None:
        self.move_job(who, which, JobEvent.PAUSE)

    @precondition(lambda self: self.any_in(JobState.SUBMITTED, JobState.PAUSED))
    @rule(who=places, which=places, event=st.sampled_from([JobEvent.START, JobEvent.RESUME]))
    def move_job(self, who: int, which: int, event: JobEvent) -> None:
        """Start, or resume; by the other rules also pause and fail."""
        model = self.model(which)
        moves: dict[JobEvent, Callable[[psycopg.Connection[Any], str], object]] = {
            JobEvent.START: jobs.start,
            JobEvent.PAUSE: jobs.pause,
            JobEvent.RESUME: jobs.resume,
            JobEvent.FAIL: lambda connection, key: jobs.fail(connection, key, "it cannot be planned"),
        }
        # Asked for what is so already, these change nothing.
        settled = {
            JobEvent.PAUSE: [JobState.PAUSED],
            JobEvent.RESUME: [JobState.RUNNING, JobState.SUBMITTED],
            JobEvent.FAIL: [JobState.FAILED],
        }.get(event, [])
        try:
            with self.worker(who) as connection:
                moves[event](connection, model.job_key)
        except WrongState:
            assert (model.state, event) not in JOB_MOVES
            assert model.state not in settled
            return
        if model.state not in settled:
            model.state = after(JOB_MOVES, model.state, event)

    @precondition(lambda self: self.settlements > 4)
    @rule(which=places)
    def cancel(self, which: int) -> None:
        model = self.model(which)
        try:
            jobs.cancel(self.pool, model.job_key)
        except WrongState:
            assert model.state in FINISHED_JOBS
            return
        if model.state is not JobState.CANCELLED:
            model.state = after(JOB_MOVES, model.state, JobEvent.CANCEL)
        self.cancel_waiting(model)

    def cancel_waiting(self, model: Model) -> None:
        for thing in model.things.values():
            if thing.status in WAITING:
                thing.status = ItemState.CANCELLED

    @precondition(lambda self: self.any(ItemState.DLQ, ItemState.NOT_FOUND))
    @rule(
        which=places,
        statuses=st.sampled_from([[ItemState.DLQ], [ItemState.NOT_FOUND], [ItemState.DLQ, ItemState.NOT_FOUND]]),
        chosen=st.none() | st.sets(places, max_size=3),
    )
    def redrive(self, which: int, statuses: list[ItemState], chosen: set[int] | None) -> None:
        model = self.model(which)
        things = [thing for thing in model.things.values() if thing.status in statuses]
        ids = None
        if chosen is not None and self.held:
            picked = [self.held[each % len(self.held)] for each in chosen]
            ids = [held.lease.item_id for held in picked]
            keys = {held.lease.item_key for held in picked if held.model is model}
            things = [thing for thing in things if thing.key in keys]
        try:
            redriven = redrive.redrive(self.pool, model.job_key, statuses, ids)
        except WrongState:
            assert model.state is JobState.CANCELLED
            return
        assert model.state is not JobState.CANCELLED
        assert redriven == len(things)
        for thing in things:
            thing.status, thing.attempts, thing.misses, thing.deaths = ItemState.PENDING, 0, 0, 0
        if model.state in FINISHED_JOBS and (things or (ids is None and self.failed_by_what_is_discarded(model))):
            model.state = after(JOB_MOVES, model.state, JobEvent.REDRIVE)

    def failed_by_what_is_discarded(self, model: Model) -> bool:
        return model.state is JobState.FAILED and model.fail_fast and model.planned and not model.count(ItemState.DLQ)

    @precondition(lambda self: self.any(ItemState.DLQ))
    @rule(which=places)
    def discard(self, which: int) -> None:
        model = self.model(which)
        things = [thing for thing in model.things.values() if thing.status is ItemState.DLQ]
        assert dlq.discard(self.pool, dlq.Wanted(job_key=model.job_key)) == len(things)
        for thing in things:
            thing.status = ItemState.CANCELLED
        if self.failed_by_what_is_discarded(model):
            assert dlq.try_again(self.pool, dlq.Wanted(job_key=model.job_key)).goes_on
            model.state = after(JOB_MOVES, model.state, JobEvent.REDRIVE)

    @precondition(lambda self: self.any_planned())
    @rule(which=places)
    def finish(self, which: int) -> None:
        """Try to end the job, as a worker does that thinks it was the last one, and as the finalizer does."""
        model = self.model(which)
        end.attempt(self.pool, KINDS, model.job_key)
        self.finished(model)

    @precondition(lambda self: self.any_planned())
    @rule()
    def finalize(self) -> None:
        end.run_once(self.pool, KINDS)
        for model in self.models:
            self.finished(model)

    def finished(self, model: Model) -> None:
        if model.state is JobState.RUNNING and model.planned and not model.count(*WAITING, ItemState.RUNNING):
            with transaction(self.pool) as connection:
                job = jobs.find(connection, model.job_key)
            model.state = after(JOB_MOVES, model.state, verdict(job).event)

    # What holds after every step.

    @invariant()
    def all_is_as_it_must_be(self) -> None:
        with transaction(self.pool) as connection:
            for model in self.models:
                self.check_model(model, jobs.find(connection, model.job_key), rows_of(connection, model.job_id))
            assert connection.execute(HELD_AND_NOT_FOUND).fetchall() == [], "the rescue would not find them in time"
            new = engine_log.moves(connection, self.logged)
            for was, now in connection.execute("SELECT was, now FROM job_log").fetchall():
                engine_log.check_job_step(was, now)
        for move in new:
            if move.was is not None:
                engine_log.check_step(move)
            self.logged = move.seq

    def check_model(self, model: Model, job: Job, kept: dict[str, Row]) -> None:
        assert set(kept) == set(model.things), "items are lost, or came from nowhere"
        for key, row in kept.items():
            check_row(row, model.things[key])
        assert (job.status, job.planned_at is not None) == (model.state, model.planned)
        assert job.total_items == len(model.things)
        for state in ItemState:
            assert getattr(job, f"{state.lower()}_items") == model.count(state), state
        if model.state is JobState.CANCELLED:
            assert model.count(*WAITING) == 0

    def teardown(self) -> None:
        """Check the whole record once more from its beginning: it has no gap, and no term is settled twice."""
        with transaction(self.pool) as connection:
            engine_log.check(connection)

    # The things at hand.

    @contextmanager
    def worker(self, who: int) -> Iterator[psycopg.Connection[Any]]:
        """A worker's own connection, in a transaction."""
        connection = self.connections[who % WORKERS]
        with connection.transaction():
            yield connection

    def model(self, which: int) -> Model:
        return self.models[which % len(self.models)]

    def any_in(self, *states: JobState) -> bool:
        return any(model.state in states for model in self.models)

    def any_open(self) -> bool:
        return any(model.state not in FINISHED_JOBS and not model.planned for model in self.models)

    def any_planned(self) -> bool:
        return any(model.state is JobState.RUNNING and model.planned for model in self.models)

    def any_expired(self) -> bool:
        things = [thing for model in self.models for thing in model.things.values()]
        return any(thing.status is ItemState.RUNNING and thing.expired for thing in things)

    def any(self, *states: ItemState) -> bool:
        return any(model.count(*states) for model in self.models)

    def of_one_job(self, which: list[int], in_time: bool) -> list[Held]:
        """Return leases of one job, each once; if `in_time`, those that are valid, if there are any."""
        there = [held for held in self.held if held.valid or not in_time] or self.held
        first = there[which[0] % len(there)]
        mine = [held for held in there if held.model is first.model]
        chosen = {id(held): held for held in (first, *(mine[each % len(mine)] for each in which[1:]))}
        return list(chosen.values())


@pytest.fixture
def machine(engine: Engine, database_url: str) -> Iterator[type[Lifecycle]]:
    with transaction(engine) as connection:
        engine_log.install(connection)
    own = [pools.single(database_url, application=f"w{number}") for number in range(WORKERS)]

    class OnThisDatabase(Lifecycle):
        pool = engine
        connections = own

    yield OnThisDatabase
    for connection in own:
        connection.close()


COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def test_lives(machine: type[Lifecycle]) -> None:
    run_state_machine_as_test(machine, settings=settings(COMMON, max_examples=examples(25), stateful_step_count=50))


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_many_lives(machine: type[Lifecycle]) -> None:
    run_state_machine_as_test(machine, settings=settings(COMMON, max_examples=400, stateful_step_count=80))
