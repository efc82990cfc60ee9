"""Requests become jobs with all their inputs, or nothing."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bulk_pipelines.distribution import submission
from bulk_pipelines.distribution.request import DistributionRequest
from bulk_pipelines.engine.errors import IdempotencyConflict
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines_tests.scenes.distribution import Scene, many, wanted


def test_a_job_has_its_inputs_before_anybody_is_answered(scene: Scene) -> None:
    job = scene.submit(many(3))
    assert job.job_key.startswith("J20")
    assert len(job.job_key) == len("J20260110_000777")
    assert (job.status, job.total_items, job.pending_items, job.fail_fast) == ("SUBMITTED", 3, 3, True)
    assert job.planned_at is not None
    assert list(scene.items(job)) == [each["indexKey"] for each in many(3)]
    assert set(scene.statuses(job).values()) == {"PENDING"}
    scene.counters_agree(job)


def test_a_refused_request_leaves_nothing(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="duplicate"):
        scene.submit([*many(3), wanted("IDX00001")])
    with scene.pool.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM job").scalar() == 0


def test_a_key_used_again_answers_with_the_first_job(scene: Scene) -> None:
    asked = DistributionRequest.parse(many(3))
    first = submission.submit(scene.pool, scene.kind, asked, Sender("me", "api", idempotency_key="k"))
    again = submission.submit(scene.pool, scene.kind, asked, Sender("me", "api", idempotency_key="k"))
    other = submission.submit(scene.pool, scene.kind, asked, Sender("you", "api", idempotency_key="k"))
    assert (first.created, again.created, other.created) == (True, False, True)
    assert again.job.job_key == first.job.job_key != other.job.job_key
    assert again.job.total_items == 3
    for different in (many(2), many(4), list(reversed(many(3)))):
        with pytest.raises(IdempotencyConflict, match=first.job.job_key):
            scene.submit(different, idempotency_key="k")


def test_many_at_once_with_one_key_make_one_job(scene: Scene) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: scene.submit(many(200), idempotency_key="k"), range(8)))
    assert len({job.job_key for job in found}) == 1
    assert found[0].total_items == len(scene.items(found[0])) == 200


@pytest.mark.long
def test_a_hundred_thousand_inputs(scene: Scene) -> None:
    began = time.monotonic()
    job = scene.submit(many(100_000))
    assert time.monotonic() - began < 60
    assert job.total_items == 100_000
    with scene.pool.connect() as connection:
        count = "SELECT count(DISTINCT item_key) FROM job_item WHERE status = 'PENDING'"
        assert connection.exec_driver_sql(count).scalar() == 100_000
