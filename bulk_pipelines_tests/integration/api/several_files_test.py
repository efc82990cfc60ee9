"""Several files of this machine are one import of a server, as they are one import of the local command line."""

import gzip
import hashlib
import os
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bulk_pipelines import errors
from bulk_pipelines.client import Client, Import, contents, uploading
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import IdempotencyConflict
from bulk_pipelines.engine.jobs import runs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.sent import appending
from bulk_pipelines.storage.errors import Full
from bulk_pipelines_tests.integration.storage.local.storage_test import no_file_larger_than
from bulk_pipelines_tests.scenes import people_files
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import HEADER, count, done, found, landed, line, users
from bulk_pipelines_tests.scenes.people_files import workbook, zipped
from bulk_pipelines_tests.scenes.whole_imports import begun, submitted, worked
from bulk_pipelines_tests.servers.faulty_proxy import Behind, Fault, FaultyProxy

BAD = "x,nobody,Name,reader,true\n"


@pytest.fixture
def ada(api: Api) -> Iterator[Client]:
    with Client(api.url, api.text("ada")) as client:
        yield client


def written(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


def emails(api: Api) -> list[str]:
    with transaction(api.engine) as connection:
        return [row[0] for row in connection.execute("SELECT email FROM users ORDER BY id").fetchall()]


def notes(job: Job) -> dict[str, str | None]:
    assert job.result is not None
    return {each["source"]: each["note"] for each in job.result["files"]}


def ended(api: Api, seen: Import) -> Job:
    return done(api.engine, seen.job_id)


def test_files_of_all_kinds_are_read_as_if_each_had_come_alone(api: Api, ada: Client, tmp_path: Path) -> None:
    """The files come by their own names and in their own order, also those that are hidden, compressed or archives."""
    people = people_files.users(6)
    paths = written(
        tmp_path,
        {
            "z.csv": people_files.text_of(people[:1]).encode(),
            "jan/users.csv": people_files.text_of(people[1:2]).encode("utf-16"),
            ".hidden/users.csv": gzip.compress(people_files.text_of(people[2:3]).encode()),
            "book.xlsx": workbook(people[3:4], engine="openpyxl"),
            "table.parquet": people_files.parquet(people[4:5]),
            "many.zip": zipped(("a.csv", people_files.text_of(people[5:]).encode()), ("b.csv", b"x,y\n1,2\n")),
        },
    )
    job = ended(api, ada.imports.submit(paths, resource="users"))
    assert job.result is not None
    assert (job.result["loaded"], job.status) == (6, "COMPLETED_WITH_ERRORS"), notes(job)
    told = notes(job)
    assert list(told) == [
        "6 files",
        "z.csv",
        "jan/users.csv",
        ".hidden/users.csv",
        "book.xlsx",
        "table.parquet",
        "many.zip",
        "many.zip/a.csv",
        "many.zip/b.csv",
    ]
    assert {name for name, note in told.items() if note} == {"6 files", "many.zip/b.csv"}
    assert str(told["6 files"]).startswith("many.zip/b.csv: ")


def test_the_same_comes_of_them_as_of_local_files(api: Api, ada: Client, tmp_path: Path) -> None:
    """The last record of a user wins in the order of the command, not of the names; lines are numbered on."""
    first = (HEADER + line(1, "early@example.org") + BAD + line(2)).encode()
    later = (HEADER + line(1, "late@example.org") + BAD).encode()
    paths = written(tmp_path, {"b.csv": first, "a.csv": later})
    local = submitted(api.engine, "users", paths, mode="upsert")
    local = worked(api.engine, begun(api.engine, local))
    with transaction(api.engine) as connection:
        connection.execute("DELETE FROM users")
    job = ended(api, ada.imports.submit(paths, resource="users", mode="upsert"))
    assert emails(api) == ["late@example.org", "user2@example.org"]
    assert job.result is not None
    assert local.result is not None
    counts = ("read", "inserted", "rejected", "superseded")
    assert [job.result[each] for each in counts] == [local.result[each] for each in counts]
    with transaction(api.engine) as connection:
        lines = [[each.line for each in rejects.every(connection, each.job_id)] for each in (local, job)]
    assert len(lines[0]) == 2
    assert lines[0] == lines[1]


@pytest.mark.parametrize("size", ["small", "large"])
def test_the_same_files_under_a_key_are_the_same_import(
    api: Api, ada: Client, tmp_path: Path, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == "large":
        monkeypatch.setattr(uploading, "PART_BYTES", 200)
    paths = written(tmp_path, {"a.csv": users(1, 2), "b.csv": users(3)})
    told: list[tuple[int, int | None]] = []
    options: dict[str, Any] = {"resource": "users", "idempotency_key": "k"}
    first, made = ada.imports.submitted(paths, **options, on_sent=lambda *far: told.append(far))
    assert made
    assert told[-1][0] == told[-1][1] == max(far for far, _ in told)
    assert (len(told) > 2) == (size == "large")
    os.utime(paths[0], (1, 1))
    again, made = ada.imports.submitted(paths, **options)
    assert (again.job_id, made) == (first.job_id, False)
    assert ended(api, first).status == "COMPLETED"
    assert len(emails(api)) == 3
    paths[1].write_bytes(users(4, 5))
    with pytest.raises(IdempotencyConflict):
        ada.imports.submitted(paths, **options)
    with pytest.raises(IdempotencyConflict):
        ada.imports.submitted(paths[:1], **options)


def test_a_broken_line_does_not_break_them(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "PART_BYTES", 300)
    monkeypatch.setattr(appending, "PART_BYTES", 100)
    paths = written(tmp_path, {f"{number}.csv": users(number, number + 100) for number in range(10)})
    with FaultyProxy(Behind(api.url)) as proxy, Client(proxy.endpoint, api.text("ada")) as client:
        proxy.add(Fault("status", method="PATCH", times=2, status=503, retry_after=0))
        proxy.add(Fault("lose", method="PATCH", times=2))
        job = ended(api, client.imports.submit(paths, resource="users"))
    assert (job.status, len(emails(api))) == ("COMPLETED", 20)


def test_a_file_that_is_no_good_is_left_out_and_named(api: Api, ada: Client, tmp_path: Path) -> None:
    paths = written(
        tmp_path, {"good.csv": users(1), "other.csv": b"x,y\n1,2\n", "broken.csv.gz": gzip.compress(users(2))[:-9]}
    )
    job = ended(api, ada.imports.submit(paths, resource="users"))
    assert (job.status, len(emails(api))) == ("COMPLETED_WITH_ERRORS", 1)
    told = notes(job)
    assert "do not fit users" in str(told["other.csv"])
    assert "cut off" in str(told["broken.csv.gz"])
    assert job.result is not None
    whole, *_, other, broken = (each["sha256"] for each in job.result["files"])
    assert (other, broken) == (hashlib.sha256(paths[1].read_bytes()).hexdigest(), None), whole
    with pytest.raises(errors.InvalidInput) as caught:
        ended(api, ada.imports.submit(paths[1:], resource="users"))
    assert str(caught.value).startswith("source: other.csv: the columns of the file do not fit users")
    assert str(caught.value).count("broken.csv.gz: ") == 1


def test_a_full_disk_keeps_what_was_sent_and_nothing_else(api: Api, ada: Client, tmp_path: Path) -> None:
    """The next try reads it from there: it lies nowhere else."""
    people = people_files.text_of(people_files.users(3_000)).encode()
    paths = written(tmp_path, {"small.csv": users(1), "large.csv.gz": gzip.compress(people)})
    seen = ada.imports.submit(paths, resource="users")
    job = runs.take_up(api.engine, seen.job_id, "run-1", by_person=False).job
    with no_file_larger_than(100_000), pytest.raises(Full, match="landed"):
        planning.plan(api.engine, job)
    folder = api.settings.home / "landed" / job.job_key
    assert [each.name for each in folder.iterdir()] == ["000001-sent"]
    job = worked(api.engine, begun(api.engine, job))
    assert job.result is not None
    assert job.result["read"] == 3_001


def test_files_that_cannot_be_sent_are_told_before_anything_is_sent(api: Api, ada: Client, tmp_path: Path) -> None:
    (good,) = written(tmp_path, {"good.csv": users(1)})
    for paths, says in (
        ([], "0 files are named"),
        ([good, tmp_path / "none.csv"], "none.csv cannot be read: No such file"),
        ([good, tmp_path], "cannot be read: Is a directory"),
        ([good, b"bytes"], "not by a bytes"),
        ([good] * 10_001, "10,001 files are named"),
    ):
        with pytest.raises(errors.InvalidInput, match=says):
            ada.imports.submit(paths, resource="users")
    with pytest.raises(errors.InvalidInput, match="compression: is recognised"):
        ada.imports.submit([good, good], resource="users", compression="none")
    assert count(api.engine, "SELECT count(*) FROM job") == count(api.engine, "SELECT count(*) FROM upload") == 0
    assert ada.imports.submit([good], resource="users", compression="none").status == "pending"


def test_a_file_that_changes_while_it_is_sent_is_told(
    api: Api, ada: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "PART_BYTES", 100)
    paths = written(tmp_path, {"a.csv": users(1, 2, 3), "b.csv": users(4)})

    def grow(*_: object) -> None:
        with paths[1].open("ab") as file:
            file.write(b"more\n")

    with pytest.raises(errors.InvalidInput, match="was written to while it was sent"):
        ada.imports.submit(paths, resource="users", on_sent=grow)
    assert count(api.engine, "SELECT count(*) FROM job") == 0
    assert landed(api) == []


def test_a_pipe_is_one_of_them(api: Api, ada: Client, tmp_path: Path) -> None:
    (good,) = written(tmp_path, {"good.csv": users(1)})
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[users(2)])
    writer.start()
    job = ended(api, ada.imports.submit([good, tmp_path / "pipe"], resource="users"))
    writer.join(30)
    assert (job.status, len(emails(api))) == ("COMPLETED", 2)


def test_hostile_bundles_are_bounded(api: Api, tmp_path: Path) -> None:
    """A bundle in a bundle is an archive in one, and is not opened without end."""
    (good,) = written(tmp_path, {"good.csv": users(1)})
    inner = contents.together([good, good])
    (nested,) = written(tmp_path, {"nested.zip": b"".join(inner.pieces)})
    deeper = b"".join(contents.together([nested, good]).pieces)
    answer = api.client("ada").post(
        "/v1/imports", params={"resource": "users"}, content=deeper, headers={"Content-Type": "application/zip"}
    )
    job = done(api.engine, answer.json()["job_id"])
    assert job.result is not None
    assert job.result["loaded"] == 1
    bomb = gzip.compress(bytes(100 << 20))
    (packed,) = written(tmp_path, {"bomb.csv.gz": bomb})
    data = b"".join(contents.together([packed, good]).pieces)
    job = done(
        api.engine,
        api.client("ada")
        .post("/v1/imports", params={"resource": "users"}, content=data, headers={"Content-Type": "application/zip"})
        .json()["job_id"],
    )
    assert "times its size" in str(notes(job)["bomb.csv.gz"])


def test_a_zip_made_elsewhere_holds_several_files_too(api: Api, tmp_path: Path) -> None:
    """What is not sent by our client needs no more than any zip; a form with two files says so."""
    data = zipped(("a.csv", users(1)), ("b.csv", users(2)))
    client = api.client("ada")
    job = client.post("/v1/imports", params={"resource": "users"}, files={"file": ("all.zip", data)}).json()["job_id"]
    assert done(api.engine, job).status == "COMPLETED"
    assert len(emails(api)) == 2
    two = [("file", ("a.csv", users(1))), ("file", ("b.csv", users(2)))]
    refused = client.post("/v1/imports", params={"resource": "users"}, files=two)
    assert refused.status_code == 400
    assert "or several as one zip" in refused.json()["detail"]


def test_records_by_what_became_of_them(api: Api, ada: Client, tmp_path: Path) -> None:
    paths = written(tmp_path, {"a.csv": (HEADER + line(1) + BAD).encode(), "b.csv": (HEADER + BAD + line(2)).encode()})
    seen = ada.imports.submit(paths, resource="users")
    assert ended(api, seen).status == "COMPLETED_WITH_ERRORS"
    with ada.imports.download_records(seen.job_id, "successful") as pieces:
        assert b"".join(pieces) == (HEADER + line(1) + line(2)).encode()
    with ada.imports.download_records(seen.job_id, "failed") as pieces:
        assert b"".join(pieces) == (HEADER + 2 * BAD).encode()
    again = ada.imports.replay(seen.job_id)
    assert done(api.engine, again.job_id).result is not None
    assert found(api.engine, again.job_id).result["rejected"] == 2  # type: ignore[index]


def test_a_bundle_is_a_file_like_others(api: Api, tmp_path: Path) -> None:
    """A bundle may be kept, and imported by its path."""
    paths = written(tmp_path, {"b.csv": users(1), "a.csv": users(2)})
    (kept,) = written(tmp_path, {"kept.zip": b"".join(contents.together(paths).pieces)})
    assert zipfile.is_zipfile(kept)
    job = submitted(api.engine, "users", [kept])
    job = worked(api.engine, begun(api.engine, job))
    assert list(notes(job))[1:] == ["b.csv", "a.csv"]
    folder = api.settings.home / "landed" / job.job_key
    assert len(list(folder.iterdir())) == 2, "the bundle itself is not kept a second time"
