"""Workers that are killed, at each point of their work and at random: every file is there once, every state right."""

import random
import signal

import pytest

from bulk_pipelines.engine.jobs import end, redrive
from bulk_pipelines_tests.chaos.deadly import ENDED, SETTLED
from bulk_pipelines_tests.chaos.distribution.conftest import Chaos
from bulk_pipelines_tests.scenes.distribution import many, wanted
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.database_proxy import Moment, Point
from bulk_pipelines_tests.servers.faulty_proxy import Fault

POINTS: dict[str, Point | Fault] = {
    "claimed": Point("new_claim AS (", Moment.COMMITTED),
    "read": Point("COPY (SELECT wanted.position", Moment.DONE),
    "put": Fault("lose", method="PUT", match="IDX00007", times=1),
    "published": Fault("lose", method="HEAD", match="IDX00000", times=1),
    "recorded, not committed": Point("INSERT INTO export_artifact (", Moment.DONE),
    "settled": SETTLED,
    "ending, not committed": Point("AS generated,", Moment.DONE),
    "ended": ENDED,
}
"""Where a process can die."""


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(chaos: Chaos, point: str) -> None:
    scene, inputs = chaos.scene, many(60)
    scene.have(inputs[1:])
    scene.have(inputs[:1], rows=90_000)  # too large to be held as a whole
    job = scene.started(inputs)
    assert chaos.killed(job, POINTS[point]) == -signal.SIGKILL
    if point in ("put", "published"):
        # The file is in the storage, and nobody has written down that it is.
        written = inputs[7 if point == "put" else 0]
        assert scene.path(job, written) in scene.files()
        assert scene.path(job, written) not in {row.path for row in scene.registry().values()}
    left = scene.job(job.job_key)
    assert (left.status == "COMPLETED") == (point == "ended")
    if point == "ending, not committed":
        assert (left.status, left.open_items) == ("RUNNING", 0)
    chaos.sweep(job)
    # Where only the job's state was missing the finalizer has it; else a worker must come.
    assert (scene.job(job.job_key).status == "COMPLETED") == (left.open_items == 0)
    if left.open_items:
        assert chaos.start(job).wait(60) == 0
    scene.check(job, inputs)
    answer = scene.answer(job)
    assert (answer["filesGenerated"], answer["filesReused"], answer["failed"]) == (60, 0, 0)
    # The finalizer and the worker agree: there is nothing left to say.
    assert end.run_once(scene.pool, {scene.kind.name: scene.kind}) == []
    assert scene.answer(job) == answer


@pytest.mark.long
@pytest.mark.parametrize("point", ["claimed", "put", "recorded, not committed", "settled", "ended"])
def test_killed_in_a_job_that_is_to_fail(chaos: Chaos, point: str) -> None:
    """Whatever crashes: the buried input and the failed job are one settlement."""
    scene, inputs = chaos.scene, many(30)
    scene.have([each for number, each in enumerate(inputs) if number != 20])
    job = scene.started(inputs)
    chaos.killed(job, POINTS[point])
    chaos.sweep(job)
    assert chaos.start(job).wait(60) == 0
    answer = scene.answer(job)
    assert (answer["status"], answer["failed"], answer["running"]) == ("FAILED", 1, 0)
    assert answer["errorMessage"].startswith("IDX00020_20240202_CLS: there is no data")
    scene.counters_agree(job)
    scene.have(inputs[20:21])
    assert redrive.redrive(scene.pool, job.job_key) == 1
    assert chaos.start(job).wait(60) == 0
    scene.check(job, inputs)


def test_a_reuse_is_not_hurt_by_a_kill(chaos: Chaos) -> None:
    scene, inputs = chaos.scene, many(30)
    scene.have(inputs)
    first = scene.done(inputs)
    registry = scene.registry()
    job = scene.started(inputs)
    assert chaos.killed(job, SETTLED) == -signal.SIGKILL
    chaos.sweep(job)
    assert chaos.start(job).wait(60) == 0
    # The workers' clock is the real one, and the scene's day is old for both.
    assert scene.answer(job)["filesReused"] == 30
    assert scene.registry() == registry
    assert {row.source_job_key for row in registry.values()} == {first.job_key}


@pytest.mark.long
def test_killed_at_random(chaos: Chaos) -> None:
    """Three processes race for a job; eight times one of them is killed and another one takes its place."""
    dice = random.Random(5)
    scene, inputs = chaos.scene, [*many(1_500), wanted("LARGE")]
    scene.have(inputs[:-1])
    scene.have(inputs[-1:], rows=8_000)
    job = scene.started(inputs)
    workers = [chaos.start(job) for _ in range(3)]
    for round_ in range(1, 9):
        until(lambda least=round_ * 120: scene.job(job.job_key).succeeded_items >= least, "it gets on", 120)  # type: ignore[misc]
        place = dice.randrange(3)
        workers[place].kill()
        workers[place].wait()
        workers[place] = chaos.start(job)
    until(lambda: scene.job(job.job_key).finished, "the job is over", 120)
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    scene.check(job, inputs)
    tries = [item.attempts for item in scene.items(job).values()]
    assert max(tries) > 1
