"""Workers whose clocks are wrong: only the database's clock decides about leases and retries."""

import pytest

from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys

HOUR = 3600.0


@pytest.mark.long
@pytest.mark.parametrize("skews", [(0.0, HOUR), (0.0, -HOUR), (HOUR, -HOUR, 0.0)])
def test_clocks_an_hour_off_take_nobody_s_lease(skews: tuple[float, ...], scene: Scene) -> None:
    """No item is taken twice, so no lease looked expired to anyone, and the retries are due when they are."""
    work = items(150, seconds=0.02)
    work[::10] = [(key, {"seconds": 0.02, "fails": 1}) for key, _ in work[::10]]
    job = scene.job("patient", work)
    with Crew(scene.url, job, scene.folder) as crew:
        workers = [crew.hire(skew=skew, wait=True)[0] for skew in skews]
        for worker in workers:
            worker.go()
        scene.finish(crew, job, 30)
        assert crew.replaced == 0
    rows = scene.check(job, keys(work))
    assert {key: row.lease_term for key, row in rows.items()} == {
        key: 1 + int(given.get("fails", 0)) for key, given in work
    }
    assert {mark.worker for mark in scene.marks("done")} == {worker.name for worker in workers}


@pytest.mark.long
def test_a_worker_with_a_wrong_clock_loses_its_items_when_it_dies(scene: Scene) -> None:
    work = items(60, seconds=0.05)
    job = scene.job("one_by_one", work)
    with Crew(scene.url, job, scene.folder) as crew:
        (wrong,) = crew.hire(skew=HOUR)
        scene.get_on(crew, job, 10)
        wrong.kill()
        crew.members.clear()
        crew.hire(skew=-HOUR)
        scene.finish(crew, job, 30)
    scene.check(job, keys(work))
