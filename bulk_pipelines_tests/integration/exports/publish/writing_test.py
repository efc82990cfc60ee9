"""Files: published whole with what was promised about them, or not at all."""

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.errors import BulkError, Cancelled, InvalidInput, Unavailable
from bulk_pipelines.exports.publish.writing import write
from bulk_pipelines.exports.read import readers
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.exports.streaming import Tally
from bulk_pipelines.formats import parquet
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.errors import Full
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.scenes.export_files import (
    exporting,
    files_of_at_most,
    insert,
    insert_users,
    names_in,
    read,
    stored,
    watching,
)
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import Place


@pytest.mark.parametrize("format_", Format)
def test_a_file_and_what_is_told_of_it(engine: Engine, tmp_path: Path, format_: Format) -> None:
    insert_users(engine, 500)
    request = ExportRequest("users", format_)
    seen: list[tuple[int, int]] = []
    storage = LocalStorage(tmp_path)
    result = write(
        engine, request, storage, f"daily/users{request.suffix}", progress=lambda t: seen.append((t.rows, t.bytes))
    )
    path = tmp_path / "daily" / f"users{request.suffix}"
    data = path.read_bytes()
    assert names_in(tmp_path) == sorted(["daily", path.name])
    assert (result.rows, result.bytes, result.location) == (500, len(data), str(path))
    assert result.sha256 == hashlib.sha256(data).hexdigest()
    assert result.rows_per_second == pytest.approx(500 / result.duration)
    assert seen == sorted(seen)
    assert seen[-1] == (500, len(data))
    found = read(engine, request, data)
    assert len(found) == 500
    if format_ is not Format.XLSX:
        assert sorted(found) == stored(engine, request)


def test_to_s3(engine: Engine, s3_bucket: Place) -> None:
    insert_users(engine, 200_000)
    storage = locations.folder(s3_bucket.url, s3_bucket.access)
    result = write(engine, ExportRequest("users"), storage, "exports/users.csv")
    assert result.rows == 200_000
    assert result.bytes > 16 << 20, "more than one part of the upload"
    assert hashlib.sha256(storage.read("exports/users.csv")).hexdigest() == result.sha256


def test_a_cancelled_export_leaves_the_former_file(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 100_000)
    (tmp_path / "users.csv").write_text("the former one")
    progress: list[int] = []
    with watching(engine) as connection:
        with pytest.raises(Cancelled):
            write(
                engine,
                ExportRequest("users"),
                LocalStorage(tmp_path),
                "users.csv",
                cancelled=lambda: bool(progress),
                progress=lambda tally: progress.append(tally.rows),
            )
        until(lambda: exporting(connection) == 0, "no connection of an export is left")
    assert progress
    assert names_in(tmp_path) == ["users.csv"]
    assert (tmp_path / "users.csv").read_text() == "the former one"


def test_a_failure_in_the_middle_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    """The last row cannot be written, when the others already are."""
    insert_users(engine, 100_000)
    insert(
        engine,
        "users",
        [{"id": "00000000-0000-0000-0000-000000000000", "email": "a@b.c", "name": "n" * 40_000, "role": "author"}],
    )
    with pytest.raises(InvalidInput, match="name: row 100002 of the sheet has a text of 40,000 characters"):
        write(engine, ExportRequest("users", Format.XLSX), LocalStorage(tmp_path), "users.xlsx")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("format_", [Format.CSV, Format.PARQUET])
def test_a_database_lost_in_the_middle_leaves_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: Format
) -> None:
    monkeypatch.setattr(readers, "ROOM", 1 << 20)
    monkeypatch.setattr(parquet, "BATCH", 1 << 20)
    insert_users(engine, 100_000)
    with watching(engine) as connection:

        def kill(_tally: Tally) -> None:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'bulk export' AND datname = current_database()"
            )

        with pytest.raises(Unavailable, match="users cannot be exported"):
            write(engine, ExportRequest("users", format_), LocalStorage(tmp_path), "users", progress=kill)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("format_", Format)
def test_a_target_that_runs_full(engine: Engine, tmp_path: Path, format_: Format) -> None:
    insert_users(engine, 100_000)
    with (
        watching(engine) as connection,
        files_of_at_most(1 << 20),
        pytest.raises(Full),
    ):
        write(engine, ExportRequest("users", format_), LocalStorage(tmp_path), "users")
    with watching(engine) as connection:
        until(lambda: exporting(connection) == 0, "no connection of an export is left")
    assert names_in(tmp_path) == []


def test_a_target_that_cannot_be_written(engine: Engine, tmp_path: Path) -> None:
    insert_users(engine, 10)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BulkError, match="file"):
        write(engine, ExportRequest("users"), LocalStorage(tmp_path / "file"), "users.csv")
    with pytest.raises(InvalidInput, match="path"):
        write(engine, ExportRequest("users"), LocalStorage(tmp_path), "../users.csv")
    assert names_in(tmp_path) == ["file"]
