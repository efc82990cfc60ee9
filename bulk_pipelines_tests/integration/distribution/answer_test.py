"""The answer about a job: the seed's fields, pages, and what it says while things move."""

import threading
from pathlib import Path

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import answer as answers
from bulk_pipelines.engine.errors import UnknownJob
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines_tests.scenes import exports
from bulk_pipelines_tests.scenes.distribution import Scene, many, paths, wanted

FIELDS = [
    "jobId",
    "status",
    "total",
    "pending",
    "running",
    "retryWait",
    "done",
    "failed",
    "cancelled",
    "filesGenerated",
    "filesReused",
    "errorMessage",
    "dataContent",
    "next",
]


def test_a_job_nobody_has_begun(scene: Scene) -> None:
    job = scene.submit(many(2))
    answer = scene.answer(job)
    assert list(answer) == FIELDS
    assert answer == {
        "jobId": job.job_key,
        "status": "SUBMITTED",
        "total": 2,
        "pending": 2,
        **dict.fromkeys(("running", "retryWait", "done", "failed", "cancelled", "filesGenerated", "filesReused"), 0),
        "errorMessage": None,
        "dataContent": [],
        "next": None,
    }


def test_files_come_a_page_at_a_time(scene: Scene) -> None:
    inputs = many(25)
    scene.have(inputs)
    job = scene.done(inputs)
    seen: list[str] = []
    after = None
    sizes = []
    while True:
        answer = scene.answer(job, size=10, after=after)
        assert list(answer["dataContent"][0]) == ["indexKey", "effectiveDate", "asofindicator", "s3Path"]
        sizes.append(len(answer["dataContent"]))
        seen += paths(answer)
        if (after := answer["next"]) is None:
            break
    assert sizes == [10, 10, 5]
    assert sorted(seen) == [scene.path(job, each) for each in inputs]
    assert scene.answer(job, size=25)["next"] is not None  # full: it cannot know that nothing follows
    assert scene.answer(job, size=25, after=scene.answer(job, size=25)["next"])["dataContent"] == []
    assert paths(scene.answer(job)) == [scene.path(job, each) for each in inputs]


def test_a_job_at_work_is_answered_as_of_one_moment(scene: Scene) -> None:
    inputs = many(400)
    scene.have(inputs)
    job = scene.started(inputs)
    working = threading.Thread(target=scene.work, args=[job])
    working.start()
    seen: list[str] = []
    after = None
    while working.is_alive():
        answer = scene.answer(job, size=7, after=after)
        counts = ("pending", "running", "retryWait", "done", "failed", "cancelled")
        assert sum(answer[name] for name in counts) == answer["total"] == 400
        assert answer["filesGenerated"] == answer["done"] >= len(seen)
        if answer["next"] is not None:
            seen += paths(answer)
            after = answer["next"]
    assert len(seen) == len(set(seen))
    # One worker settles in one order: what was not seen yet comes behind.
    while after is not None:
        answer = scene.answer(job, size=7, after=after)
        seen += paths(answer)
        after = answer["next"]
    assert sorted(seen) == [scene.path(job, each) for each in inputs]


def test_counts_outlive_the_items(scene: Scene) -> None:
    scene.have(many(3))
    scene.done(many(2))
    job = scene.done(many(3))
    with transaction(scene.pool) as connection:
        connection.execute("DELETE FROM job_item WHERE job_id = %s", [job.job_id])
    answer = scene.answer(job)
    assert (answer["done"], answer["filesGenerated"], answer["filesReused"], answer["dataContent"]) == (3, 1, 2, [])


def test_wrong_questions(scene: Scene) -> None:
    scene.have([wanted("ABC")])
    job, other = scene.done([wanted("ABC")]), scene.done([wanted("ABC")])
    with pytest.raises(UnknownJob, match="J20260110_000777"):
        scene.answer(job.__class__(**{**vars(job), "job_key": "J20260110_000777"}))
    for size in (0, 1_001):
        with pytest.raises(InvalidInput, match="^size: "):
            scene.answer(job, size=size)
    cursor = scene.answer(other, size=1)["next"]
    for after in ("nonsense", cursor):
        with pytest.raises(InvalidInput, match="^after: "):
            scene.answer(job, after=after)


def test_a_job_of_another_kind_is_none_of_ours(scene: Scene, tmp_path: Path) -> None:
    """The items and the result of an export have another form."""
    job = exports.started(scene.pool, to=str(tmp_path))
    for _ in ("at work", "done"):
        with pytest.raises(
            InvalidInput, match=f"^job: {job.job_key} is no distribution, it is of the kind export_users"
        ):
            answers.of_job(scene.pool, job.job_key)
        exports.worked(scene.pool, job)
