"""A storage in trouble: refusals, silence, lost answers; a database whose connections break."""

import threading
from dataclasses import replace

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines_tests.scenes.distribution import Scene, many, paths, wanted
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.faulty_proxy import Fault, FaultyProxy
from bulk_pipelines_tests.servers.processes import Place


@pytest.fixture
def faulty(scene: Scene, faulty_s3: FaultyProxy) -> Scene:
    return scene.on(faulty_s3.bucket()).with_settings(distribution_attempts=50)


def test_a_server_that_refuses_a_share_of_the_uploads(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    inputs = many(300)
    faulty.have(inputs)
    faulty_s3.add(Fault("status", share=0.4, method="PUT"))
    job = faulty.done(inputs)
    faulty.check(job, inputs)
    assert faulty_s3.counts()["PUT", "status"] > 60
    tries = [item.attempts for item in faulty.items(job).values()]
    assert sum(tries) - 300 > 10  # most refusals pass at the second try, made at once
    assert faulty.answer(job)["retryWait"] == 0


def test_a_retry_after_is_respected(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    faulty.have([wanted("ABC"), wanted("DEF")])
    faulty_s3.add(Fault("status", method="PUT", match="ABC", times=2, retry_after=3))
    job = faulty.started([wanted("ABC"), wanted("DEF")])
    with faulty.worker(job) as worker:
        worker.run_once()
        worker.settler.drain()
        with transaction(faulty.pool) as connection:
            found = connection.execute(
                "SELECT input ->> 'indexKey', status::text, error_class,"
                " extract(epoch FROM due_at - updated_at)::float8 FROM job_item ORDER BY 1"
            ).fetchall()
        assert found == [("ABC", "RETRY_WAIT", "throttled", 3.0), ("DEF", "SUCCEEDED", None, None)]
        drained = faulty.work(job, patient=False)
        assert drained.worked == 0
        assert 2 < (drained.seconds_to_next or 0) <= 3
    faulty.work(job)
    faulty.check(job, [wanted("ABC"), wanted("DEF")])
    assert faulty_s3.counts()["PUT", ""] == 2


def waits(scene: Scene, job: Job) -> float | None:
    """How long its one input is to wait, after one try."""
    with scene.worker(job) as worker:
        worker.run_once()
        worker.settler.drain()
        with transaction(scene.pool) as connection:
            row = connection.execute(
                "SELECT error_class, extract(epoch FROM due_at - updated_at)::float8 FROM job_item WHERE job_id = %s",
                [job.job_id],
            ).fetchone()
    assert row is not None
    assert row[0] == "throttled"
    return float(row[1])


@pytest.mark.parametrize(("rows", "method"), [(20_000, "PUT"), (90_000, "")])
def test_a_retry_after_is_respected_for_large_files(
    faulty: Scene, faulty_s3: FaultyProxy, rows: int, method: str
) -> None:
    """A file that is too large to be held as a whole makes requests of another kind."""
    faulty.have([wanted("LARGE")], rows=rows)
    faulty_s3.add(Fault("status", method=method, times=2, retry_after=30))
    assert waits(faulty, faulty.started([wanted("LARGE")])) == 30


def test_a_retry_after_is_respected_by_those_who_look(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    faulty.have([wanted("ABC")])
    faulty.done([wanted("ABC")])
    faulty_s3.add(Fault("status", times=2, retry_after=30))
    assert waits(faulty, faulty.started([wanted("ABC")])) == 30


def test_s3_away_for_a_while_and_back(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    inputs = many(60)
    faulty.have(inputs)
    job = faulty.started(inputs)
    with faulty_s3.down():
        working = threading.Thread(target=faulty.work, args=[job])
        working.start()
        until(lambda: faulty.answer(job)["retryWait"] >= 16, "inputs wait for S3")
        assert faulty.answer(job)["status"] == "RUNNING"
        assert faulty.answer(job)["done"] == 0
    working.join()
    faulty.check(job, inputs)
    assert max(item.attempts for item in faulty.items(job).values()) > 1


def test_an_answer_that_is_lost(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    """The object is there, nobody knows: it is written once more, under the same name."""
    inputs = many(20)
    faulty.have(inputs)
    faulty_s3.add(Fault("lose", method="PUT", share=0.5))
    job = faulty.started(inputs)
    working = threading.Thread(target=faulty.work, args=[job])
    working.start()
    until(lambda: faulty_s3.counts()["PUT", "lose"] >= 10, "answers were lost")
    faulty_s3.clear()
    working.join()
    faulty.check(job, inputs)


def test_a_large_file_over_a_bad_line(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    inputs = [wanted("LARGE"), wanted("LARGER")]
    faulty.have(inputs[:1], rows=20_000)
    faulty.have(inputs[1:], rows=90_000)
    for each in inputs:
        faulty_s3.add(Fault("drop", match=each["indexKey"] + "_", times=1))
    job = faulty.done(inputs)
    faulty.check(job, inputs)


def test_a_server_that_says_nothing(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    """The upload is given up when the server has been silent for too long, and tried again."""
    place = faulty_s3.bucket()
    impatient = replace(place.access, s3=replace(place.access.s3, silence=1.0))
    # The lease is not what ends the upload.
    faulty = faulty.on(Place(place.url, impatient)).with_settings(distribution_lease_seconds=600.0)
    inputs = many(16)
    faulty.have(inputs)
    faulty_s3.add(Fault("delay", seconds=600, match="IDX00003", times=1))
    job = faulty.started(inputs)
    working = threading.Thread(target=faulty.work, args=[job], daemon=True)
    working.start()
    until(lambda: not working.is_alive(), "the upload is given up and tried again", 120)
    faulty.check(job, inputs)
    assert faulty.items(job)["IDX00003"].attempts > 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            Fault("status", method="PUT", status=403, body=b"<Error><Code>AccessDenied</Code></Error>"),
            "may not do that",
        ),
        (Fault("status", method="PUT", status=404, body=b"<Error><Code>NoSuchBucket</Code></Error>"), "bucket"),
    ],
)
def test_what_does_not_pass_is_not_tried_again(faulty: Scene, faulty_s3: FaultyProxy, fault: Fault, said: str) -> None:
    faulty.have([wanted("ABC")])
    faulty_s3.add(fault)
    job = faulty.done([wanted("ABC")])
    item = faulty.items(job)["ABC"]
    assert (item.status, item.attempts, item.error_class) == ("DLQ", 1, "permanent")
    assert said in (faulty.answer(job)["errorMessage"] or "")
    assert "TESTSECRETKEY" not in str(faulty.answer(job))


def test_one_slow_upload_does_not_hold_up_the_others(faulty: Scene, faulty_s3: FaultyProxy) -> None:
    """The upload is slow for one input: the others of its claim do not wait for it."""
    inputs = many(16)
    faulty.have(inputs)
    faulty_s3.add(Fault("delay", seconds=2, match="IDX00000", times=1))
    job = faulty.started(inputs)
    working = threading.Thread(target=faulty.work, args=[job])
    working.start()
    until(lambda: faulty.answer(job)["done"] == 15, "the others are done")
    assert faulty.answer(job)["running"] == 1
    working.join()
    faulty.check(job, inputs)


def test_connections_to_the_database_that_break(faulty: Scene) -> None:
    inputs = many(400)
    faulty.have(inputs)
    job = faulty.started(inputs)
    working = threading.Thread(target=faulty.work, args=[job])
    working.start()
    for _ in range(5):
        before = faulty.answer(job)["done"]
        until(lambda before=before: faulty.answer(job)["done"] != before or not working.is_alive(), "it gets on")  # type: ignore[misc]
        with transaction(faulty.pool) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    working.join()
    faulty.check(job, inputs)


def test_credentials_are_not_in_the_answers(scene: Scene, s3_bucket: Place) -> None:
    wrong = replace(s3_bucket.access, s3=replace(s3_bucket.access.s3, secret_access_key="sesame-open"))
    scene = scene.on(Place(s3_bucket.url, wrong))
    scene.have([wanted("ABC")])
    job = scene.done([wanted("ABC")])
    answer = scene.answer(job)
    assert (answer["status"], paths(answer)) == ("FAILED", [])
    assert "sesame" not in str(answer)
