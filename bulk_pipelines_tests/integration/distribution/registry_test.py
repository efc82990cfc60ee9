"""One row for an input, consistent, however many jobs produce its file at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.distribution import Scene, many, measured, records, wanted
from bulk_pipelines_tests.scenes.engine_jobs import ALL_RUN_OUT
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.faulty_proxy import Fault, FaultyProxy


@pytest.mark.parametrize("round_", range(3))
def test_two_jobs_at_once_leave_one_consistent_row(either: Scene, round_: int) -> None:
    """A job with the inputs the other way round takes part: no job waits for another in a circle."""
    inputs = many(150)
    either.have(inputs)
    submitted = [either.started(inputs), either.started(list(reversed(inputs))), either.started(inputs)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(either.work, submitted))
    registry, files = either.registry(), either.files()
    assert len(registry) == 150
    assert {row.source_job_key for row in registry.values()} <= {job.job_key for job in submitted}
    for row in registry.values():
        assert f"/{row.source_job_key}/" in row.path
        assert measured(files[row.path]) == (row.size, row.checksum)
    for job in submitted:
        assert either.job(job.job_key).status == "COMPLETED"


def test_the_later_reading_of_the_data_wins(scene: Scene, faulty_s3: FaultyProxy) -> None:
    """A job whose upload took long must not bring older data back into the registry."""
    scene = scene.on(faulty_s3.bucket())
    scene.have([wanted("ABC")], close="1.5")
    slow, quick = scene.started([wanted("ABC")]), scene.started([wanted("ABC")])
    faulty_s3.add(Fault("delay", seconds=1.5, match=slow.job_key, method="PUT"))
    working = threading.Thread(target=scene.work, args=[slow])
    working.start()
    until(lambda: faulty_s3.counts()["PUT", "delay"] == 1, "the slow upload is under way")
    scene.change("ABC", "2.5")
    scene.work(quick)
    working.join()
    (row,) = scene.registry().values()
    assert row.source_job_key == quick.job_key
    content = scene.files()[row.path]
    assert measured(content) == (row.size, row.checksum)
    assert records(content)[1][-1] == "2.500000"
    assert scene.job(slow.job_key).status == "COMPLETED"


WITHOUT_A_TABLE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE 'no such table' USING ERRCODE = 'undefined_table'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON export_artifact FOR EACH ROW EXECUTE FUNCTION refuse()
"""
"""A trigger that acts as if a table were missing that a registration needs: whatever the values are, it cannot be
written."""


def test_the_row_commits_with_the_item_or_not_at_all(scene: Scene) -> None:
    """What cannot be recorded now is not settled; the items wait for their rescue."""
    scene.have(many(5))
    job = scene.started(many(5))
    with transaction(scene.pool) as connection:
        connection.execute(WITHOUT_A_TABLE)
    with pytest.raises(Exception, match="no such table"):
        scene.work(job)
    assert scene.registry() == {}
    assert set(scene.statuses(job).values()) == {"RUNNING"}
    with transaction(scene.pool) as connection:
        connection.execute("DROP TRIGGER refuse ON export_artifact")
        connection.execute(ALL_RUN_OUT)
    scene.work(job)
    scene.check(job, many(5))


def test_what_the_registry_refuses_is_a_dead_letter(scene: Scene) -> None:
    """The table says the same each time, so the items do not wait for another try; nothing of them is registered."""
    scene.have(many(5))
    job = scene.started(many(5))
    with transaction(scene.pool) as connection:
        connection.execute("ALTER TABLE export_artifact ADD CONSTRAINT nothing CHECK (false) NOT VALID")
    scene.work(job)
    assert scene.registry() == {}
    assert set(scene.statuses(job).values()) == {"DLQ"}
