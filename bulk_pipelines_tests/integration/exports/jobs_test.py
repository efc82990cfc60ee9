"""Exports as jobs of the engine: published once, told of on the job, called off without a trace."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.engine.errors import IdempotencyConflict
from bulk_pipelines.engine.jobs import redrive
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports import completion, progress
from bulk_pipelines.exports.publish import recount
from bulk_pipelines.exports.request import Compression, ExportRequest, Format
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.export_files import files_of_at_most, insert, insert_users, names_in
from bulk_pipelines_tests.scenes.exports import exported, started, submitted, worked
from bulk_pipelines_tests.servers.processes import Place

pytestmark = pytest.mark.usefixtures("home")

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
    """The export is not tried again by itself, because what is full stays full, and no file takes up the room that is
    left."""
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
