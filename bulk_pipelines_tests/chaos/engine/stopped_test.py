"""Workers that are asked to stop: what they have not begun comes back as if they had never had it."""

import pytest

from bulk_pipelines.engine.states import ItemState
from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys
from bulk_pipelines_tests.scenes.engine_jobs import check_counters
from bulk_pipelines_tests.scenes.waiting import until


@pytest.mark.long
@pytest.mark.parametrize(("kind", "at_once"), [("patient", 1), ("patient_side_by_side", 4)])
def test_a_stopped_worker_gives_back_what_it_has_not_begun(kind: str, at_once: int, scene: Scene) -> None:
    work = items(20, seconds=1.0)
    job = scene.job(kind, work)
    with Crew(scene.url, job, scene.folder) as crew:
        (first,) = crew.hire()
        until(lambda: len(scene.marks("begun")) >= at_once, "the first items are being worked")
        held = scene.find(job.job_key).running_items
        first.terminate()
        assert first.ended() == 0
        assert first.said("drained: stopped")
        begun = {mark.item_key for mark in scene.marks("begun")}
        assert held > len(begun)
        rows = scene.rows(job)
        for key, row in rows.items():
            if key in begun:
                assert (row.status, row.attempt_count) == (ItemState.SUCCEEDED, 1)
            else:
                assert (row.status, row.attempt_count, row.death_count) == (ItemState.PENDING, 0, 0)
        assert sum(row.lease_term for row in rows.values()) == held
        check_counters(scene.pool, scene.find(job.job_key))
        crew.hire(3)
        scene.finish(crew, job)
    rows = scene.check(job, keys(work))
    assert {row.attempt_count for row in rows.values()} == {1}


def test_a_stopped_long_item_comes_back_at_once_with_what_it_has_done(scene: Scene) -> None:
    """Nobody waits for the end of the item's lease, which is a minute long."""
    work = items(1, parts=200, seconds=0.01)
    job = scene.job("patient_long", work)
    with Crew(scene.url, job, scene.folder) as crew:
        for _ in range(2):
            (worker,) = crew.hire()
            scene.get_on(crew, job, 20)
            worker.terminate()
            assert worker.ended(10) == 0
            assert worker.said("drained: stopped")
            (row,) = scene.rows(job).values()
            assert (row.status, row.attempt_count, row.death_count) == (ItemState.PENDING, 0, 0)
        crew.hire()
        scene.finish(crew, job)
    (row,) = scene.check(job, keys(work)).values()
    assert row.lease_term == 3


def test_stopping_while_the_database_is_away_and_comes_back(scene: Scene) -> None:
    work = items(60, seconds=0.05)
    job = scene.job("one_by_one", work)
    with Crew(scene.url, job, scene.folder) as crew:
        (first,) = crew.hire()
        scene.get_on(crew, job, 5)
        scene.server.stop_immediately()
        until(lambda: first.said("waits for the database"), "the worker has noticed")
        first.terminate()
        scene.server.start()
        first.ended()
        crew.hire()
        scene.finish(crew, job)
    scene.check(job, keys(work))
