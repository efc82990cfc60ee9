"""An intake that is cut short, that meets another one, or whose answer is lost adds each row once."""

from collections.abc import Iterator

import pytest

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer
from bulk_pipelines.engine.intake.persist import Encoded
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.errors import Conflict, Transient
from bulk_pipelines.processing.intake import planning, records
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.listening import before, listening
from bulk_pipelines_tests.scenes.processing import Scene


@pytest.fixture(autouse=True)
def shop(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/")


LOOK = queries.text("items", "job_to_fill")


"""The statement with which each batch begins."""


def test_an_intake_that_was_cut_short_goes_on_with_the_same_bytes(scene: Scene) -> None:
    titles = [f"t{number}" for number in range(5_000)]
    source = scene.products(*titles)
    job = scene.submitted(source=source)
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)

    def die() -> None:
        raise KeyboardInterrupt

    with listening(scene.pool, before(LOOK, die, number=3)) as dying, pytest.raises(KeyboardInterrupt):
        planning.plan(dying, job)
    there = scene.job(job.job_key).total_items
    assert 0 < there < 5_000
    scene.products("other", "rows")  # the source has changed meanwhile, which does not matter
    planning.plan(scene.pool, job)
    assert [row["title"] for row in scene.inputs(job)] == titles
    engine_jobs.check_counters(scene.pool, job)


def test_two_intakes_of_one_job_add_each_row_once(scene: Scene) -> None:
    """An orphan of an earlier try may still be at it: one of the two goes on, the other is told."""
    job = scene.submitted(source=scene.products(*[f"t{number}" for number in range(3_000)]))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)

    def rows(count: int) -> Iterator[Encoded]:
        return records.items(({"title": f"t{number}"} for number in range(count)), 1)

    sizer = BatchSizer.within(BatchLimits(start_rows=1_000, max_rows=1_000))
    assert persist.copy_items(scene.pool, job.job_id, rows(2_000), sizer, before=0) == 2_000
    late = BatchSizer.within(BatchLimits(start_rows=700, max_rows=700))
    with pytest.raises(Conflict, match="somebody else"):
        persist.copy_items(scene.pool, job.job_id, rows(3_000), late, before=0)
    assert scene.job(job.job_key).total_items == 2_000


def test_a_plan_that_meets_another_one_goes_on_behind_it(scene: Scene) -> None:
    """The orphan of an earlier try, or a kick-off, adds rows at the same time. That must not fail the job."""
    titles = [f"t{number}" for number in range(1_500)]
    job = scene.submitted(source=scene.products(*titles))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)

    def beside() -> None:
        rows = list(records.items(({"title": title, "brand": "Acme"} for title in titles[:7]), 1))
        with transaction(scene.pool) as other:
            persist.copy_batch(other, job.job_id, rows, 0)

    with listening(scene.pool, before(LOOK, beside)) as heard, pytest.raises(Transient, match="somebody else"):
        planning.plan(heard, job)
    assert scene.job(job.job_key).total_items == 7
    assert planning.plan(scene.pool, job).planned_at is not None
    assert [row["title"] for row in scene.inputs(job)] == titles
    engine_jobs.check_counters(scene.pool, job)


def test_a_plan_that_another_one_overtakes_is_done(scene: Scene) -> None:
    job = scene.submitted(source=scene.products("a", "b"))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    with listening(scene.pool, before(LOOK, lambda: planning.plan(scene.pool, job))) as overtaken:
        assert planning.plan(overtaken, job).planned_at is not None
    assert [row["title"] for row in scene.inputs(job)] == ["a", "b"]


def test_a_plan_of_a_job_that_was_cancelled_meanwhile_says_so(scene: Scene) -> None:
    job = scene.submitted(source=scene.products("a", "b"))
    with transaction(scene.pool) as connection:
        jobs.start(connection, job.job_key)
    cancel = before(LOOK, lambda: jobs.cancel(scene.pool, job.job_key))
    with listening(scene.pool, cancel) as heard, pytest.raises(Conflict, match="is over"):
        planning.plan(heard, job)


def test_the_answer_to_a_commit_that_was_lost_does_not_double_a_batch(scene: Scene) -> None:
    job = engine_jobs.submitted(scene.pool)
    batch = list(records.items(({"n": number} for number in range(10)), 1))
    for _ in range(2):
        with transaction(scene.pool) as connection:
            persist.copy_batch(connection, job.job_id, batch, 0)
    assert len(scene.rows(job)) == 10
