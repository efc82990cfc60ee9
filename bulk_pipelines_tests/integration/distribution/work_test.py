"""A job of distribution from its submission to its end: every move of inputs and jobs that the seed knows."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import work
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import jobs, redrive
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.drain import End
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.work import Tally
from bulk_pipelines.storage.access import Access, S3Access
from bulk_pipelines_tests.scenes.distribution import Scene, many, measured, paths, records, wanted
from bulk_pipelines_tests.scenes.engine_jobs import ALL_RUN_OUT
from bulk_pipelines_tests.servers.processes import Place, free_port


def nobody() -> S3Access:
    """A server that is not there."""
    return S3Access(f"http://127.0.0.1:{free_port()}", "us-east-1", "key", "secret")


def work_on(scene: Scene, late: Worker) -> None:
    """What it has claimed, without looking up."""
    while late.waiting:
        lease = late.waiting.popleft()
        late.settle(lease, scene.kind.handle(lease, late.tools), Tally())


def test_each_input_becomes_a_file(either: Scene) -> None:
    inputs = many(40)
    either.have(inputs)
    job = either.done(inputs)
    either.check(job, inputs)
    answer = either.answer(job)
    assert answer["dataContent"] == [each | {"s3Path": either.path(job, each)} for each in inputs]
    assert {name: answer[name] for name in ("jobId", "status", "total", "done", "filesGenerated", "filesReused")} == {
        "jobId": job.job_key,
        "status": "COMPLETED",
        "total": 40,
        "done": 40,
        "filesGenerated": 40,
        "filesReused": 0,
    }
    (item, *_), files = either.items(job).values(), either.files()
    assert item.attempts == item.term
    assert item.result is not None
    assert item.result["rows"] == 3
    assert records(files[item.result["path"]])[1][0] == "IDX00000"
    assert set(either.registry()) == {f"{each['indexKey']}_20240202_CLS" for each in inputs}


def test_names_as_indexes_have_them(either: Scene) -> None:
    inputs = [
        wanted(key) for key in (".SPX", "^GSPC", "MSCI World", "a#b?c", "100%", "%41", "日経", "a'b", "[x]*", "..")
    ]
    either.have(inputs)
    job = either.done(inputs)
    either.check(job, inputs)
    assert paths(either.answer(job)) == [either.path(job, each) for each in inputs]


def test_a_large_file_is_streamed(either: Scene) -> None:
    inputs = [wanted("SMALL"), wanted("LARGE"), wanted("LARGER")]
    either.have(inputs[:1])
    either.have(inputs[1:2], rows=30_000)
    either.have(inputs[2:], rows=90_000)  # more than is held as a whole
    job = either.done(inputs)
    either.check(job, inputs)
    files = either.files()
    assert [len(records(files[either.path(job, each)])) for each in inputs] == [4, 30_001, 90_001]
    assert len(files[either.path(job, inputs[2])]) > work.WHOLE


def test_more_large_files_than_connections(scene: Scene) -> None:
    scene = scene.with_settings(distribution_concurrency=30)
    inputs = many(40)
    scene.have(inputs, rows=6_000)
    scene.check(scene.done(inputs), inputs)


def test_an_input_without_data_fails_the_job_at_once(scene: Scene) -> None:
    """Inputs that were not begun are not begun any more; files that were written stay and are listed."""
    inputs = many(400)
    scene.have([each for number, each in enumerate(inputs) if number != 5])
    job = scene.started(inputs)
    drained = scene.work(job)
    assert drained.end is End.FINISHED
    answer = scene.answer(job)
    assert answer["status"] == "FAILED"
    assert answer["errorMessage"] == "IDX00005_20240202_CLS: there is no data of IDX00005 for 2024-02-02 as CLS"
    assert (answer["failed"], answer["running"], answer["retryWait"]) == (1, 0, 0)
    # Four at a time: the five before it, and those in work beside it.
    assert 4 <= answer["done"] <= 15
    assert answer["pending"] == 399 - answer["done"]
    assert sorted(paths(answer)) == sorted(scene.files())
    item = scene.items(job)["IDX00005"]
    assert (item.status, item.attempts, item.error_class) == ("DLQ", 1, "permanent")
    scene.counters_agree(job)


def test_another_worker_stops_too(scene: Scene) -> None:
    scene = scene.with_settings(distribution_concurrency=1)
    inputs = many(300)
    scene.have([each for number, each in enumerate(inputs) if number != 16])
    job = scene.started(inputs)
    with scene.worker(job) as first, scene.worker(job) as second:
        assert first.take(Tally()) == second.take(Tally()) == 16  # the first claims are small
        slice_ = second.run_once()  # 16 to 31: the one without data comes first
        assert slice_.tally.failed == 1
        assert slice_.left == 15
        assert second.run_once().left == 0
        assert first.run_once().tally.total == 0
    answer = scene.answer(job)
    assert (answer["status"], answer["failed"], answer["pending"], answer["done"]) == ("FAILED", 1, 299, 0)
    scene.counters_agree(job)


def test_a_redriven_job_goes_on(either: Scene) -> None:
    inputs = many(30)
    either.have(inputs[:7])
    job = either.done(inputs)
    assert either.answer(job)["status"] == "FAILED"
    before = {key: item for key, item in either.items(job).items() if item.status == "SUCCEEDED"}
    either.have(inputs[7:])
    buried = [item for item in either.items(job).values() if item.status == "DLQ"]
    assert 1 <= len(buried) <= 4
    assert redrive.redrive(either.pool, job.job_key) == len(buried)
    assert either.answer(job)["errorMessage"] is None
    assert either.work(job).end is End.FINISHED
    either.check(job, inputs)
    after = either.items(job)
    assert {key: after[key] for key in before} == before  # nothing is done twice
    answer = either.answer(job)
    assert (answer["status"], answer["errorMessage"], answer["filesGenerated"]) == ("COMPLETED", None, 30)


def test_a_redrive_without_a_cure_fails_again(scene: Scene) -> None:
    job = scene.done([wanted("NONE")])
    for _ in range(2):
        assert redrive.redrive(scene.pool, job.job_key) == 1
        scene.work(scene.job(job.job_key))
        assert scene.answer(job)["status"] == "FAILED"
    assert scene.items(job)["NONE"].attempts == 1


def test_a_budget_that_is_spent_ends_in_the_dlq(scene: Scene) -> None:
    scene = scene.with_settings(distribution_attempts=3)
    scene.have([wanted("ABC")])
    away = scene.on(Place("s3://bucket", Access(s3=nobody())))
    job = away.started([wanted("ABC")])
    with away.worker(job) as worker:
        worker.run_once()
        worker.settler.drain()
        item = away.items(job)["ABC"]
        assert (item.status, item.attempts, item.error_class) == ("RETRY_WAIT", 1, "transient")
        assert away.answer(job)["retryWait"] == 1
        drain.drain(worker)
    item = away.items(job)["ABC"]
    assert (item.status, item.attempts) == ("DLQ", 3)
    assert item.error is not None
    assert item.error.endswith("(given up after 3 attempts)")
    assert away.answer(job)["status"] == "FAILED"
    # Cured: the files go somewhere that is there.
    redrive.redrive(scene.pool, job.job_key)
    scene.work(scene.job(job.job_key))
    scene.check(job, [wanted("ABC")])


def test_a_paused_job_rests_and_a_cancelled_one_ends(scene: Scene) -> None:
    inputs = many(50)
    scene.have(inputs)
    job = scene.started(inputs)
    with scene.worker(job) as worker:
        worker.run_once()
        with transaction(scene.pool) as connection:
            jobs.pause(connection, job.job_key)
        assert drain.drain(worker).end is End.PAUSED
    paused = scene.answer(job)
    assert (paused["status"], paused["running"]) == ("PAUSED", 0)
    assert 0 < paused["done"] < 50
    with transaction(scene.pool) as connection:
        jobs.resume(connection, job.job_key)
    with scene.worker(scene.job(job.job_key)) as worker:
        worker.run_once()
        jobs.cancel(scene.pool, job.job_key)
        worker.run_once()
    answer = scene.answer(job)
    assert (answer["status"], answer["pending"], answer["errorMessage"]) == ("CANCELLED", 0, None)
    assert answer["done"] + answer["cancelled"] == 50
    assert sorted(paths(answer)) == sorted(scene.files())
    scene.counters_agree(job)


def test_what_a_worker_does_after_its_lease_is_lost_is_dropped(either: Scene) -> None:
    either = either.with_settings(distribution_lease_seconds=60.0)  # it does not look whether it still has it
    inputs = many(10)
    either.have(inputs)
    job = either.started(inputs)
    with either.worker(job) as late:
        assert late.take(Tally()) == 10
        with transaction(either.pool) as connection:
            connection.execute(ALL_RUN_OUT)
        assert rescue.run_once(either.pool, {"distribution": either.kind}, lambda: 0.0).retried == 10
        assert either.work(job).end is End.FINISHED
        settled = either.items(job)
        work_on(either, late)  # writes the files once more
        late.settler.drain()
        assert late.settler.lost_count == 10
    assert either.items(job) == settled
    either.check(job, inputs)
    # The bytes are the same, so they can be used again.
    again = either.done(inputs)
    assert either.answer(again)["filesReused"] == 10


def test_a_late_write_of_other_bytes_is_noticed(scene: Scene) -> None:
    scene = scene.with_settings(distribution_lease_seconds=60.0)
    scene.have([wanted("ABC")], close="1.5")
    job = scene.started([wanted("ABC")])
    with scene.worker(job) as late:
        assert late.take(Tally()) == 1
        late.tools.prepared.contents.fetch()  # the old data, in hand
        scene.change("ABC", "2.5")
        with transaction(scene.pool) as connection:
            connection.execute(ALL_RUN_OUT)
        rescue.run_once(scene.pool, {"distribution": scene.kind}, lambda: 0.0)
        scene.work(job)
        work_on(scene, late)
    (row,) = scene.registry().values()
    assert measured(scene.files()[row.path]) != (row.size, row.checksum)
    again = scene.done([wanted("ABC")])
    assert scene.answer(again)["filesGenerated"] == 1
    scene.check(again, [wanted("ABC")])


@pytest.mark.parametrize("workers", [2, 4])
def test_workers_share_a_job(scene: Scene, workers: int) -> None:
    """The workers write to a folder: the S3 server of the tests refuses a write now and then while another one makes
    the same folder."""
    inputs = many(300)
    scene.have(inputs)
    job = scene.started(inputs)
    with ThreadPoolExecutor(workers) as threads:
        drained = list(threads.map(lambda _: scene.work(job), range(workers)))
    assert sum(each.worked for each in drained) == 300
    scene.check(job, inputs)
    assert {item.attempts for item in scene.items(job).values()} == {1}
