"""Exports as jobs of the engine: published once, told of on the job, called off without a trace."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.engine.errors import IdempotencyConflict
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import cut_short, jobs, redrive
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import completion, progress
from bulk_pipelines.exports.publish import recount
from bulk_pipelines.exports.request import Compression, ExportRequest, Format
from bulk_pipelines.exports.work import Point
from bulk_pipelines.storage import locations, paths
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.engine_jobs import ALL_RUN_OUT
from bulk_pipelines_tests.scenes.export_files import (
    exporting,
    files_of_at_most,
    insert,
    insert_users,
    names_in,
    watching,
)
from bulk_pipelines_tests.scenes.exports import (
    QUICK,
    exported,
    found,
    rows_so_far,
    slow_down,
    speed_up,
    started,
    submitted,
    worked,
)
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import Place


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


ENDINGS = {Format.ARROW: "arrows"}


@pytest.mark.parametrize("format_", Format)
def test_what_is_recorded_on_the_job(engine: Engine, tmp_path: Path, format_: Format) -> None:
    insert_users(engine, 300)
    job = exported(engine, format=format_.value, where=["role=admin"], to=str(tmp_path / "out"))
    assert job.status is JobState.COMPLETED, job.last_error
    path = tmp_path / "out" / f"users-{job.job_key}.{ENDINGS.get(format_, format_)}"
    assert names_in(tmp_path / "out") == [path.name]
    data, result = path.read_bytes(), job.result
    assert result is not None
    assert (result["rows"], result["bytes"], result["location"]) == (75, len(data), str(path))
    assert result["sha256"] == hashlib.sha256(data).hexdigest()
    assert result["duration"] > 0
    assert result["rows_per_second"] > 0
    with pool.transaction(engine) as connection:
        assert progress.read(connection, job.job_id) is None, "nothing is left to clean up"
        item, error = completion.file_of(connection, job)
    assert error is None
    assert item is not None
    assert [record["role"] for record in item["preview"]] == ["admin"] * 10


def test_without_a_target_into_the_folder_of_the_settings(engine: Engine, home: Path) -> None:
    job = exported(engine)
    assert names_in(home / "exports") == [f"users-{job.job_key}.csv"]


def test_to_a_name_and_to_s3(engine: Engine, s3_bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    insert_users(engine, 20)
    named = tmp_path / "daily" / "admins.csv.gz"
    job = exported(engine, to=str(named), compression="gzip")
    assert job.status is JobState.COMPLETED, job.last_error
    assert names_in(named.parent) == ["admins.csv.gz"]
    s3 = s3_bucket.access.s3
    monkeypatch.setenv("BULK_S3_ENDPOINT", s3.endpoint)
    monkeypatch.setenv("BULK_S3_ACCESS_KEY_ID", s3.access_key_id)
    monkeypatch.setenv("BULK_S3_SECRET_ACCESS_KEY", s3.secret_access_key)
    for format_ in Format:
        there = exported(engine, to=f"{s3_bucket.url}/exports", format=format_.value)
        assert there.status is JobState.COMPLETED, there.last_error
        assert there.result is not None
        name = f"users-{there.job_key}.{format_.ending}"
        assert there.result["location"] == f"{s3_bucket.url}/exports/{name}"
        with locations.folder(f"{s3_bucket.url}/exports", s3_bucket.access) as storage:
            assert (
                recount.rows_in(storage, name, ExportRequest.parse({"resource": "users", "format": format_.value}))
                == 20
            )


def test_the_same_key_with_the_same_request_is_the_same_job(engine: Engine) -> None:
    first = submitted(engine, key="k", fields="id,email", where=["role=admin"])
    again = submitted(engine, key="k", fields=["id", "email"], where=["role = admin"])
    assert again.job_key == first.job_key
    assert submitted(engine, key="k", owner="another", fields="id").job_key != first.job_key
    for other in ({"fields": "email,id"}, {"fields": "id,email", "where": ["role=admin"], "to": "/elsewhere"}):
        with pytest.raises(IdempotencyConflict, match=first.job_key):
            submitted(engine, key="k", **other)
    with pytest.raises(IdempotencyConflict, match=first.job_key):
        submitted(engine, key="k", resource="comments")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"to": "http://example.org/x"}, "to: http://example.org/x is a web address"),
        ({"to": "gopher://x/y"}, "to: gopher:// is not an address we know"),
        ({"to": "s3://x/y"}, "to: s3://x/y names no bucket"),
        ({"to": "-"}, "to: only `bulk export` has a standard output"),
        ({"to": 7}, "to: 7 is not text"),
        ({"to": "out/users.csv", "format": "parquet"}, "to: users.csv does not end in .parquet"),
        ({"to": "users.csv", "compression": "gzip"}, "to: users.csv does not end in .csv.gz"),
        ({"shoe": 42}, "shoe: is not a parameter"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_at_once(engine: Engine, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        submitted(engine, **params)
    assert message in str(caught.value)


def test_what_is_asked_for_survives_the_job(tmp_path: Path) -> None:
    asked = ExportRequest.parse(
        {"resource": "articles", "where": ['title~="""big data"""'], "order": "-slug", "to": "x/"}
    )
    assert asked.to == str(Path("x").absolute()) + "/"
    assert ExportRequest.parse(asked.as_params()) == asked


@contextmanager
def in_the_middle(engine: Engine, rows: int = 20_000, **params: Any) -> Iterator[Job]:
    """An export at work in a thread, some of its rows written; the caller decides what happens then."""
    insert_users(engine, rows)
    job = started(engine, **params)
    thread = threading.Thread(target=worked, args=(engine, job))
    with watching(engine) as connection:
        slow_down(connection)
        thread.start()
        try:
            until(lambda: rows_so_far(connection, job) > 0, "it has written some rows")
            yield job
        finally:
            speed_up(connection)
            thread.join(60)
            assert not thread.is_alive()


def test_a_cancel_stops_the_query_and_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    with in_the_middle(engine, to=str(tmp_path / "out")) as job, watching(engine) as connection:
        assert names_in(tmp_path / "out") != []
        jobs.cancel(engine, job.job_key)
        until(lambda: exporting(connection) == 0, "the query is cancelled", 10)
    assert found(engine, job).status is JobState.CANCELLED
    assert names_in(tmp_path / "out") == []
    completion.wind_up(engine, job.job_key)
    assert completion.wind_up_all(engine) == 0


def test_a_cancel_is_heard_while_the_first_rows_are_looked_for(engine: Engine, tmp_path: Path) -> None:
    """The preview of an export that is ordered, or whose filter finds little, reads the whole table first."""
    insert_users(engine, 20_000)
    job = started(engine, to=str(tmp_path / "out"), order="name")
    thread = threading.Thread(target=worked, args=(engine, job), daemon=True)
    with watching(engine) as connection:
        slow_down(connection, seconds=0.005)
        thread.start()
        at_work = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%LIMIT 10%'"
        looking = f"{at_work} AND state = 'active' AND pid <> pg_backend_pid()".encode()
        until(lambda: connection.execute(looking).fetchone() == (1,), "PostgreSQL looks for the first rows")
        jobs.cancel(engine, job.job_key)
        thread.join(20)
        assert not thread.is_alive()
        assert connection.execute(looking).fetchone() == (0,)
    assert found(engine, job).status is JobState.CANCELLED
    assert names_in(tmp_path / "out") == []


def test_a_pause_leaves_nothing_and_a_resume_begins_anew(engine: Engine, tmp_path: Path) -> None:
    with in_the_middle(engine, to=str(tmp_path / "out")) as job, pool.transaction(engine) as connection:
        jobs.pause(connection, job.job_key)
    assert names_in(tmp_path / "out") == []
    with pool.transaction(engine) as connection:
        jobs.resume(connection, job.job_key)
        jobs.start(connection, job.job_key)
    ended = worked(engine, job)
    assert ended.status is JobState.COMPLETED
    assert names_in(tmp_path / "out") == [f"users-{job.job_key}.csv"]
    assert ended.result is not None
    assert ended.result["rows"] == 20_000


@pytest.mark.long
def test_progress_is_no_checkpoint(engine: Engine, tmp_path: Path) -> None:
    """A checkpoint would begin the tries anew, and an export that fails at its end be tried for ever."""
    with in_the_middle(engine, to=str(tmp_path / "out")) as job, watching(engine) as connection:
        before = rows_so_far(connection, job)
        until(lambda: rows_so_far(connection, job) > before, "it goes on")
        row = connection.execute("SELECT checkpoint, attempt_count FROM job_item").fetchone()
    assert row == (None, 1)
    assert found(engine, job).status is JobState.COMPLETED


def taken_away(engine: Engine) -> bool:
    """As if its worker had been silent for too long; a renewal may come between."""
    with pool.transaction(engine) as connection:
        connection.execute(ALL_RUN_OUT)
    return rescue.run_once(engine, QUICK, lambda: 0.0).items == 1


@pytest.mark.long
def test_who_lost_the_lease_publishes_nothing(engine: Engine, tmp_path: Path) -> None:
    with in_the_middle(engine, to=str(tmp_path / "out")) as job:
        (first,) = names_in(tmp_path / "out")
        until(lambda: taken_away(engine), "its item is rescued")
        until(lambda: first not in names_in(tmp_path / "out"), "its next word of progress is refused", 10)
    assert found(engine, job).status is JobState.COMPLETED
    assert names_in(tmp_path / "out") == [f"users-{job.job_key}.csv"]


def test_a_cancel_between_the_last_byte_and_the_name(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    job = started(engine, to=str(tmp_path / "out"))
    ended = worked(engine, job, {Point.NOTED: lambda: jobs.cancel(engine, job.job_key)})
    assert ended.status is JobState.CANCELLED
    assert names_in(tmp_path / "out") == []


@pytest.mark.parametrize("to", ["out", "out/all.csv"])
def test_a_cancel_after_the_name_takes_the_file_back(engine: Engine, tmp_path: Path, to: str) -> None:
    insert_users(engine, 100)
    job = started(engine, to=str(tmp_path / to))
    ended = worked(engine, job, {Point.PUBLISHED: lambda: jobs.cancel(engine, job.job_key)})
    assert ended.status is JobState.CANCELLED
    assert len(names_in(tmp_path / "out")) == 1
    assert completion.wind_up_all(engine) == 1
    assert names_in(tmp_path / "out") == []
    assert completion.wind_up_all(engine) == 0


def test_an_export_that_cannot_be_wound_up_keeps_no_other_from_it(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_short, "AT_A_TIME", 1)
    insert_users(engine, 100)
    broken, whole = (started(engine, to=str(tmp_path / name)) for name in ("broken", "whole"))
    for job in (broken, whole):
        worked(engine, job, {Point.PUBLISHED: partial(jobs.cancel, engine, job.job_key)})
    with pool.transaction(engine) as connection:
        connection.execute("UPDATE job SET params = '{}' WHERE job_id = %s", [broken.job_id])
    assert completion.wind_up_all(engine) == 1
    assert (len(names_in(tmp_path / "broken")), names_in(tmp_path / "whole")) == (1, [])


def test_a_file_of_somebody_else_stays(engine: Engine, tmp_path: Path) -> None:
    """The name was given, and written by another since."""
    insert_users(engine, 100)
    path = tmp_path / "out" / "all.csv"
    job = started(engine, to=str(path))

    def cancel() -> None:
        jobs.cancel(engine, job.job_key)
        path.write_text("theirs")

    worked(engine, job, {Point.PUBLISHED: cancel})
    completion.wind_up_all(engine)
    assert path.read_text() == "theirs"


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("when", [Point.NOTED, Point.PUBLISHED])
def test_an_earlier_file_is_never_lost(engine: Engine, tmp_path: Path, when: Point, same: bool) -> None:
    """Paused around the publication and cancelled then: there is the earlier file or the new one, never none."""
    insert_users(engine, 100)
    path = tmp_path / "out" / "all.csv"
    assert exported(engine, to=str(path), order="id").status is JobState.COMPLETED
    earlier = path.read_text()
    if not same:
        with pool.transaction(engine) as connection:
            connection.execute("UPDATE users SET name = 'another'")
    job = started(engine, to=str(path), order="id")

    def pause() -> None:
        with pool.transaction(engine) as connection:
            jobs.pause(connection, job.job_key)

    assert worked(engine, job, {when: pause}).status is JobState.PAUSED
    jobs.cancel(engine, job.job_key)
    assert completion.wind_up_all(engine) == 1
    assert (path.read_text() == earlier) == (same or when is Point.NOTED)
    assert len(path.read_text().splitlines()) == 101
    assert completion.wind_up_all(engine) == 0


def test_a_file_of_somebody_else_that_comes_while_ours_is_taken_back_stays(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    path = tmp_path / "all.csv"
    job = started(engine, to=str(path))
    worked(engine, job, {Point.PUBLISHED: lambda: jobs.cancel(engine, job.job_key)})
    heard: list[Point] = []

    def replace(point: Point) -> None:
        heard.append(point)
        path.write_text("theirs")

    completion.wind_up(engine, job.job_key, replace)
    assert heard == [Point.RECOGNISED], "it is ours when it is looked at"
    assert path.read_text() == "theirs"


def test_who_died_after_publishing_is_believed_by_the_next(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    job = started(engine, to=str(tmp_path / "out"))
    path = tmp_path / "out" / f"users-{job.job_key}.csv"
    published: list[bytes] = []

    def fail() -> None:
        published.append(path.read_bytes())
        raise OSError("as if the process had died")

    ended = worked(engine, job, {Point.PUBLISHED: fail})
    assert ended.status is JobState.COMPLETED
    assert len(published) == 1, "the file was found, not written again"
    assert ended.result is not None
    assert ended.result["sha256"] == hashlib.sha256(published[0]).hexdigest()
    assert names_in(tmp_path / "out") == [f"users-{job.job_key}.csv"]


def test_what_a_killed_try_left_goes_with_the_next(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100)
    folder = tmp_path / "out"
    job = started(engine, to=str(folder))
    left = folder / paths.unfinished(f"users-{job.job_key}.csv", "0123456789abcdef")
    others = folder / paths.unfinished("users-J1.csv", "0123456789abcdef")

    def fail_once() -> None:
        if not folder.exists():
            folder.mkdir()
            left.write_text("half")
            others.write_text("half")
            raise OSError("as if the process had died")

    assert worked(engine, job, {Point.BEGUN: fail_once}).status is JobState.COMPLETED
    assert not left.exists()
    assert others.exists()


def test_a_failure_says_why_and_a_redrive_begins_anew(engine: Engine, tmp_path: Path) -> None:
    insert(
        engine,
        "users",
        [{"id": "00000000-0000-0000-0000-000000000000", "email": "a@b.c", "name": "n" * 40_000, "role": "author"}],
    )
    job = exported(engine, format="xlsx", to=str(tmp_path / "out"))
    assert job.status is JobState.FAILED
    assert job.last_error is not None
    assert job.last_error.startswith("name: row 2 of the sheet has a text of 40,000 characters")
    assert job.result is None
    completion.wind_up(engine, job.job_key)
    assert names_in(tmp_path / "out") == []
    with pool.transaction(engine) as connection:
        connection.execute("UPDATE users SET name = 'Ann'")
    redrive.redrive(engine, job.job_key)
    assert worked(engine, job).status is JobState.COMPLETED
    assert names_in(tmp_path / "out") == [f"users-{job.job_key}.xlsx"]


def test_a_target_that_cannot_be_written(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    job = exported(engine, to=str(tmp_path / "file" / "below"))
    assert job.status is JobState.FAILED
    assert str(tmp_path / "file") in (job.last_error or "")
    completion.wind_up(engine, job.job_key)
    assert completion.wind_up_all(engine) == 0
    assert names_in(tmp_path) == ["file"]


def test_a_target_that_runs_full(engine: Engine, tmp_path: Path) -> None:
    """Not tried again by itself: what is full stays full. Nothing takes up the room that is left."""
    insert_users(engine, 20_000)
    job = started(engine, to=str(tmp_path / "out"))
    with files_of_at_most(1 << 20):
        ended = worked(engine, job)
    assert ended.status is JobState.FAILED
    assert "File too large" in (ended.last_error or "")
    assert names_in(tmp_path / "out") == []
    with pool.transaction(engine) as connection:
        assert connection.execute("SELECT attempt_count FROM job_item").fetchone() == (1,)


@pytest.mark.parametrize("packed", Compression)
@pytest.mark.parametrize("format_", Format)
def test_the_rows_of_a_file_are_counted_by_the_file(
    engine: Engine, tmp_path: Path, format_: Format, packed: Compression
) -> None:
    if format_ is Format.XLSX and packed is not Compression.NONE:
        pytest.skip("an xlsx file is compressed already")
    if format_ is Format.ARROW and packed is Compression.GZIP:
        pytest.skip("arrow has zstd inside, or nothing")
    awkward = ['a"b', "two\nlines", '"\n"', "<row ", "plain", '\n"",\n']
    for count in (0, len(awkward)):
        insert(
            engine,
            "users",
            [
                {"id": f"{number:032x}", "email": f"u{number}@b.cd", "name": name, "role": "author"}
                for number, name in enumerate(awkward[:count])
            ],
        )
        job = exported(engine, format=format_.value, compression=packed.value, fields="name", to=str(tmp_path))
        assert job.result is not None, job.last_error
        request = ExportRequest.parse(
            {"resource": "users", "format": format_.value, "compression": packed.value, "fields": "name"}
        )
        name = f"users-{job.job_key}{request.suffix}"
        assert recount.rows_in(LocalStorage(tmp_path), name, request) == count == job.result["rows"]
