"""Many connections at the same jobs at once, doing everything there is to do in any order: what must hold, holds."""

import random
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import LeaseLost
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.items import leases, rescue
from bulk_pipelines.engine.items.leases import ClaimUndone, Lease
from bulk_pipelines.engine.jobs import end, jobs, redrive
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, Outcome, RetryLater, Skip, Unfinished
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines_tests.scenes import engine_log
from bulk_pipelines_tests.scenes.engine_jobs import (
    ALL_RUN_OUT,
    FAR,
    WORK,
    check_counters,
    claimed,
    expire,
    found,
    make_due,
    rows,
    settled,
    submitted,
)

CROWD = 6


@pytest.fixture
def logged(engine: Engine) -> Iterator[Engine]:
    """Whatever happened in the test, the record of it is checked."""
    with transaction(engine) as connection:
        engine_log.install(connection)
    yield engine
    with transaction(engine) as connection:
        engine_log.check(connection)


class Somebody:
    """One of the crowd. Keeps the leases it got, and uses some of them more than once."""

    def __init__(self, pool: Engine, name: str, given: list[Job], chance: random.Random) -> None:
        self.pool = pool
        self.name = name
        self.jobs = given
        self.chance = chance
        self.held: list[tuple[Job, Lease]] = []
        self.added: set[tuple[int, str]] = set()

    def act(self) -> None:
        deeds: list[tuple[Callable[[], None], float]] = [
            (self.claim, 30),
            (self.settle, 40),
            (self.renew, 5),
            (self.write_data, 10),
            (self.silence, 4),
            (self.rescue, 6),
            (self.add, 4),
            (self.pause_or_resume, 4),
            (self.cancel, 0.3),
            (self.redrive, 3),
            (self.finish, 3),
        ]
        (deed,) = self.chance.choices([each for each, _ in deeds], [weight for _, weight in deeds])
        with suppress(Conflict, ClaimUndone, LeaseLost):
            deed()

    def job(self) -> Job:
        return self.chance.choice(self.jobs)

    def some(self) -> tuple[Job, list[Lease]]:
        job = self.job()
        mine = [lease for each, lease in self.held if each is job]
        return job, self.chance.sample(mine, min(len(mine), self.chance.randint(1, 20)))

    def claim(self) -> None:
        job = self.job()
        taken = claimed(self.pool, job, self.chance.randint(1, 30), owner=self.name)
        self.held += [(job, lease) for lease in taken]

    def settle(self) -> None:
        job, mine = self.some()
        if not mine:
            return
        outcomes: list[Outcome] = [
            Done({"by": self.name}),
            Done({"by": self.name}),
            NotFound(),
            Skip("x"),
            RetryLater("x", after=self.chance.choice([0.0, 0.01, FAR])),
            Bury("x"),
            Unfinished(),
        ]
        settled(self.pool, job, mine, self.chance.choice(outcomes))
        if self.chance.random() < 0.7:
            gone = {lease.item_id for lease in mine}
            self.held = [(each, lease) for each, lease in self.held if lease.item_id not in gone]

    def renew(self) -> None:
        _, mine = self.some()
        with transaction(self.pool) as connection:
            leases.renew(connection, mine, FAR)

    def write_data(self) -> None:
        _, mine = self.some()
        if mine:
            with transaction(self.pool) as connection:
                leases.hold(connection, mine[0])
                leases.checkpoint(connection, mine[0], {"by": self.name}, FAR)

    def silence(self) -> None:
        _, mine = self.some()
        expire(self.pool, sorted(mine, key=lambda lease: lease.item_id))

    def rescue(self) -> None:
        rescue.run_once(self.pool, WORK, lambda: 0.0, self.chance.choice([None, self.job().job_id]))

    def add(self) -> None:
        job = self.job()
        items = [(f"{self.name}-{self.chance.random()}", {"n": 1}) for _ in range(self.chance.randint(1, 10))]
        persist.add_items(self.pool, job.job_id, items, BatchSizer.within(BatchLimits(min_rows=3, start_rows=100)))
        self.added |= {(job.job_id, key) for key, _ in items}

    def pause_or_resume(self) -> None:
        job = self.job()
        with transaction(self.pool) as connection:
            self.chance.choice([jobs.pause, jobs.resume, jobs.resume])(connection, job.job_key)

    def cancel(self) -> None:
        jobs.cancel(self.pool, self.job().job_key)

    def redrive(self) -> None:
        redrive.redrive(self.pool, self.job().job_key)

    def finish(self) -> None:
        job = self.job()
        if self.chance.random() < 0.05:
            with transaction(self.pool) as connection:
                jobs.seal(connection, job.job_id)
        end.attempt(self.pool, WORK, job.job_key)


def crowd(pool: Engine, given: list[Job], deeds: int, seed: int) -> list[Somebody]:
    everybody = [Somebody(pool, f"w{number}", given, random.Random(seed + number)) for number in range(CROWD)]

    def live(somebody: Somebody) -> None:
        for _ in range(deeds):
            somebody.act()

    with ThreadPoolExecutor(CROWD) as executor:
        list(executor.map(live, everybody))
    return everybody


def work_off(pool: Engine, job: Job) -> None:
    """Do what is left when everybody is gone and the silence was noticed."""
    while found(pool, job).open_items and found(pool, job).status is not JobState.CANCELLED:
        with transaction(pool) as connection:
            connection.execute(ALL_RUN_OUT)
        rescue.run_once(pool, WORK, lambda: 0.0)
        make_due(pool, job)
        settled(pool, job, claimed(pool, job), Done({"by": "the last one"}))


def started(pool: Engine) -> Job:
    job = submitted(pool, 60)
    with transaction(pool) as connection:
        return jobs.start(connection, job.job_key)


def check_crowd(pool: Engine, deeds: int) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    given = [started(pool) for _ in range(3)]
    everybody = crowd(pool, given, deeds, seed)
    for job in given:
        check_counters(pool, job)
        if found(pool, job).status is JobState.PAUSED:
            with transaction(pool) as connection:
                jobs.resume(connection, job.job_key)
        with transaction(pool) as connection:
            jobs.seal(connection, job.job_id)
        work_off(pool, job)
        check_end(pool, job, {key for each in everybody for job_id, key in each.added if job_id == job.job_id})


def check_end(pool: Engine, job: Job, added: set[str]) -> None:
    end.run_once(pool, WORK)
    rescue.run_once(pool, WORK, lambda: 0.0)
    check_counters(pool, job)
    ended = found(pool, job)
    left = rows(pool, job)
    assert ended.finished
    assert set(left) >= added, "items are lost"
    assert len(left) == 60 + len(added)
    if ended.status is JobState.CANCELLED:
        assert ended.pending_items == ended.retry_wait_items == 0


def test_a_crowd(logged: Engine) -> None:
    check_crowd(logged, 80)


@pytest.mark.long
@pytest.mark.parametrize("_", range(5))
def test_a_crowd_for_longer(logged: Engine, _: int) -> None:
    check_crowd(logged, 800)
