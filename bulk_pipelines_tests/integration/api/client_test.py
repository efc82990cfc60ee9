"""The client against a real server: what is sent arrives, whatever the line does; errors are those of the program."""

import gzip
import hashlib
import io
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pandas
import pyarrow as pa
import pytest

from bulk_pipelines import errors
from bulk_pipelines.api.problems import BY_ERROR, PROBLEMS, problem_of
from bulk_pipelines.client import Client, Export, Import, contents, uploading
from bulk_pipelines.client.problems import error_of
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import errors as of_jobs
from bulk_pipelines.imports.sent import appending
from bulk_pipelines.imports.sent.digests import DigestMismatch
from bulk_pipelines.processing import control
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_exports import completed
from bulk_pipelines_tests.scenes.api_imports import HEADER, count, done, landed, uploads_left, users
from bulk_pipelines_tests.scenes.api_items import products, shop
from bulk_pipelines_tests.scenes.processing import items
from bulk_pipelines_tests.servers.faulty_proxy import Behind, Fault, FaultyProxy
from bulk_pipelines_tests.servers.provider_server import ProviderServer

SOME = users(1, 2, 3)


@pytest.fixture
def ada(api: Api) -> Iterator[Client]:
    with Client(api.url, api.text("ada")) as client:
        yield client


def run(api: Api, client: Client, source: Any, **options: Any) -> Import:
    """Run an import; this process does the work when the client looks for the first time."""

    def work(seen: Import) -> None:
        if not seen.over:
            done(api.engine, seen.job_id)

    return client.imports.run(source, on_look=work, seconds=120, **options)


def table(api: Api, query: str) -> list[tuple[Any, ...]]:
    with transaction(api.engine) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.parametrize("form", ["path", "bytes", "file", "open file"])
def test_what_can_be_sent(api: Api, ada: Client, tmp_path: Path, form: str) -> None:
    path = tmp_path / "üsers 1.csv"
    path.write_bytes(SOME)
    sent: list[tuple[int, int | None]] = []
    sources = {"path": path, "bytes": SOME, "file": io.BytesIO(SOME), "open file": path.open("rb")}
    over = run(api, ada, sources[form], resource="users", on_sent=lambda *far: sent.append(far))
    assert (over.status, over.successful_records, over.good) == ("completed", 3, True)
    assert sent == [(len(SOME), len(SOME))]
    assert count(api.engine, "SELECT count(*) FROM users") == 3
    assert [each.job_id for each in ada.imports.list(status="completed")] == [over.job_id]
    assert list(ada.imports.errors(over.job_id)) == []


FRAME: dict[str, list[Any]] = {
    "slug": ["a-b", "c-d"],
    "title": ['Comma, "quote"', "newline\nähm"],
    "body": ["x", "y"],
    "tags": [["one", "two, three"], []],
    "status": ["draft", "published"],
    "published_at": [None, datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)],
}


@pytest.mark.parametrize("form", ["pyarrow", "batches", "pandas", "categories"])
def test_tables(api: Api, ada: Client, form: str) -> None:
    author = str(uuid.uuid4())
    run(api, ada, f"id,email,name,role,active\n{author},a@example.org,A,reader,true\n".encode(), resource="users")
    arrow = pa.table({**FRAME, "author_id": [author, author]})
    frame = pandas.DataFrame({**FRAME, "author_id": [uuid.UUID(author)] * 2} | {"author_id": [author] * 2})
    sources: dict[str, Any] = {
        "pyarrow": arrow,
        "batches": arrow.to_reader(1),
        "pandas": frame,
        "categories": frame.astype({"status": "category"}),
    }
    over = run(api, ada, sources[form], resource="articles")
    assert (over.status, over.failure_reason) == ("completed", None), list(ada.imports.errors(over.job_id))
    rows = table(api, "SELECT slug, title, tags, status, published_at, author_id FROM articles ORDER BY slug")
    assert [(*row[:4], row[4] and row[4].astimezone(UTC), str(row[5])) for row in rows] == [
        ("a-b", 'Comma, "quote"', ["one", "two, three"], "draft", None, author),
        ("c-d", "newline\nähm", [], "published", FRAME["published_at"][1], author),
    ]


def test_tables_that_have_no_form_in_csv(ada: Client) -> None:
    for source in (pa.table({"a": [{"b": 1}]}), pa.table({"a": [b"x"]}), 7, {"a": 1}, io.StringIO("x"), "/nowhere"):
        with pytest.raises(errors.InvalidInput) as caught:
            ada.imports.submit(source, resource="users")
        assert caught.value.field == "source"


def test_a_table_of_many_batches_is_one_file(api: Api, ada: Client) -> None:
    """Its header stands there once; nothing of it is held but some thousand rows."""
    rows = 50_000
    ids = [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(rows)]
    users = pa.table(
        {
            "id": ids,
            "email": [f"u{number}@example.org" for number in range(rows)],
            "name": ["N"] * rows,
            "role": ["reader"] * rows,
            "active": [True] * rows,
        }
    )
    over = run(api, ada, users, resource="users", validate_only=True)
    assert (over.successful_records, over.error_records, over.mode) == (rows, 0, "validate")


def test_a_large_file_goes_on_where_it_was(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests do not reach the server, and answers are lost, the first and the last ones, too."""
    monkeypatch.setattr(uploading, "PART_BYTES", 10_000)
    monkeypatch.setattr(appending, "PART_BYTES", 4_000)
    content = users(*range(2_000))
    with FaultyProxy(Behind(api.url)) as proxy, Client(proxy.endpoint, api.text("ada")) as client:
        for kind in ("drop", "lose"):
            proxy.add(Fault(kind, share=0.3, method="PATCH"))
            proxy.add(Fault(kind, share=0.2, method="HEAD"))
        proxy.add(Fault("status", share=0.1, method="PATCH", status=503, retry_after=0))
        sent: list[tuple[int, int | None]] = []
        over = run(api, client, content, resource="users", on_sent=lambda *far: sent.append(far))
        assert sum(proxy.counts()["PATCH", kind] for kind in ("drop", "lose")) > 3
    assert (over.status, over.successful_records) == ("completed", 2_000)
    assert sent[-1] == (len(content), len(content))
    assert [far for far, _ in sent] == sorted(far for far, _ in sent)
    assert count(api.engine, "SELECT count(*) FROM job") == 1
    assert uploads_left(api) == 0


def test_an_upload_whose_last_answer_is_lost_is_one_import(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "PART_BYTES", 100)
    with FaultyProxy(Behind(api.url)) as proxy, Client(proxy.endpoint, api.text("ada")) as client:
        proxy.add(Fault("lose", method="PATCH", times=None))
        submitted: list[Import] = []

        def sent(far: int, _: int | None) -> None:
            if far == len(SOME):
                return
            if far + 100 >= len(SOME):  # only the last request is left; its answer is lost once
                proxy.clear()
                proxy.add(Fault("lose", method="PATCH", times=1))

        submitted.append(client.imports.submit(SOME, resource="users", on_sent=sent))
    assert count(api.engine, "SELECT count(*) FROM job") == 1
    assert submitted[0].status == "pending"


def test_what_cannot_be_sent_leaves_nothing(api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "PART_BYTES", 100)

    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            piece = super().read(150)
            if not piece:
                raise OSError("the disk is gone")
            return piece

    with pytest.raises(OSError, match="the disk is gone"):
        ada.imports.submit(Breaks(SOME), resource="users")
    assert (landed(api), uploads_left(api)) == ([], 0)


def test_the_same_request_again(api: Api, ada: Client) -> None:
    first = ada.imports.submitted(SOME, resource="users", idempotency_key="k")
    again = ada.imports.submitted(SOME, resource="users", idempotency_key="k")
    assert (first[1], again[1], again[0].job_id) == (True, False, first[0].job_id)
    with pytest.raises(of_jobs.IdempotencyConflict) as caught:
        ada.imports.submit(users(4), resource="users", idempotency_key="k")
    assert caught.value.job_key == first[0].job_id
    with FaultyProxy(Behind(api.url)) as proxy, Client(proxy.endpoint, api.text("ada")) as client:
        proxy.add(Fault("lose", method="POST", times=2))
        made = client.imports.submit(users(9), resource="users").job_id
    assert count(api.engine, "SELECT count(*) FROM job") == 2, "a request whose answer is lost is made again"
    assert made != first[0].job_id


def test_afterwards(api: Api, ada: Client, tmp_path: Path) -> None:
    content = SOME + b"x,nobody,Name,reader,true\n"
    over = run(api, ada, content, resource="users")
    assert (over.status, over.error_records) == ("completed_with_errors", 1)
    (reject,) = ada.imports.errors(over.job_id)
    assert (reject.line, reject.field) == (5, "id")
    with ada.imports.download_errors(over.job_id, "ndjson") as pieces:
        assert json.loads(b"".join(pieces))["line"] == 5
    with ada.imports.download_records(over.job_id, "successful") as pieces:
        assert b"".join(pieces) == SOME
    replay = ada.imports.replay(over.job_id)
    assert (replay.replay_of, ada.imports.replay(over.job_id).job_id) == (over.job_id, replay.job_id)
    assert ada.imports.cancel(replay.job_id).status == "cancelled"
    assert ada.imports.undo(over.job_id, dry_run=True).removed == 3
    assert ada.imports.undo(over.job_id).removed == 3
    with pytest.raises(of_jobs.WrongState):
        ada.imports.cancel(over.job_id)
    with pytest.raises(errors.NotFound), ada.imports.download_records("J20200101_000001", "failed") as pieces:
        next(pieces)


def test_rows_are_looked_up(api: Api, ada: Client, tmp_path: Path) -> None:
    def answer(call: Any) -> Any:
        return items() if call.params["q"].startswith("none") else items((call.params["q"].split()[0], 0.9, "2"))

    with ProviderServer(answer) as server:
        shop(api, server.url, recipe="not_found_attempts = 1")
        job = ada.jobs.submit(products("lamp", "none1").encode(), recipe="products", format="csv")
        assert (job.queue_state, job.recipe, job.over) == ("QUEUED", "products", False)
        assert [each.job_id for each in ada.jobs.list(status=["QUEUED"])] == [job.job_id]
        assert ada.jobs.pause(job.job_id).queue_state == "PAUSED"
        assert ada.jobs.resume(job.job_id).queue_state == "RUNNING"
        while ada.jobs.kick_off(job.job_id, 20)["finished_at"] is None:
            pass
        over = ada.jobs.follow(job.job_id, seconds=60)
        assert (over.good, over.items["DONE"], over.items["NOT_FOUND"]) == (True, 1, 1)
        rows = list(ada.jobs.items(job.job_id, sort="row"))
        assert [(row.inputTitle, row.status) for row in rows] == [("lamp", "DONE"), ("none1", "NOT_FOUND")]
        with ada.jobs.export(job.job_id, "csv") as pieces:
            assert b"".join(pieces).startswith(b'"Title","Price"')
        assert ada.jobs.reprocess(job.job_id, itemIds=[rows[1].id], dryRun=True) == 1
        assert ada.jobs.reprocess(job.job_id) == 1
        assert [row.item_key for row in ada.jobs.pending()] == ["000000002"]
        assert ada.jobs.cancel(job.job_id).status == "CANCELLED"
        frame = pandas.DataFrame({"title": ["chair"], "brand": ["Acme"]})
        another = ada.jobs.submit(frame, recipe="products")
        assert control.kick_off(api.engine, another.job_id, 30).job.total_items == 1


def test_errors_are_those_of_the_program(api: Api, ada: Client) -> None:
    with pytest.raises(errors.InvalidInput) as wrong:
        ada.imports.submit(SOME, resource="users", on_error="sometimes")
    assert (wrong.value.field, str(wrong.value)) == ("on_error", f"on_error: {wrong.value.message}")
    assert vars(wrong.value)["status"] == 400
    assert vars(wrong.value)["request_id"]
    assert "Mend the field" in vars(wrong.value)["remedy"]
    with pytest.raises(errors.NotFound):
        ada.imports.get("J20200101_000001")
    with pytest.raises(errors.Forbidden):
        ada.jobs.submit(b"x", recipe="x", owner="eve")
    with Client(api.url, "bulk_0_x") as stranger, pytest.raises(errors.Unauthenticated):
        stranger.imports.get("J20200101_000001")
    with Client("http://127.0.0.1:9", patience=0.5) as away, pytest.raises(errors.Unavailable, match="127.0.0.1:9"):
        away.imports.get("J20200101_000001")
    with pytest.raises(errors.InvalidInput):
        Client("bulk.example.org")


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_problem_is_an_error(problem: str) -> None:
    known = PROBLEMS[problem]
    body = {"type": f"/problems/{problem}", "status": known.status, "detail": "field: why", "field": "field"}
    request = httpx.Request("GET", "http://server/x")
    error = error_of(httpx.Response(known.status, json=body, request=request))
    assert str(error) == "field: why"
    ours = {error for error, name in BY_ERROR.items() if name == problem} - {DigestMismatch}
    if ours - {errors.BulkError}:  # the server raises it
        assert problem_of(error) == problem
    plain = error_of(httpx.Response(known.status, text="<html>", request=request))
    assert isinstance(plain, errors.BulkError)
    assert "GET /x" in str(plain)


def test_the_client_loads_neither_a_database_driver_nor_dagster() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import bulk_pipelines.client, sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"dagster", "psycopg", "sqlalchemy", "fastapi", "pandas", "pyarrow"} & set(said)


def test_exports_and_files(api: Api, ada: Client) -> None:
    run(api, ada, SOME, resource="users")
    with ada.exports.stream("users", format="ndjson", fields=["id", "name"], where=["name=Name 2"]) as pieces:
        assert json.loads(b"".join(pieces))["name"] == "Name 2"

    def work(seen: Export) -> None:
        if not seen.over:
            completed(api.engine, seen.job_id)

    over = ada.exports.run("users", on_look=work, seconds=120, order=["name"], idempotency_key="e")
    assert (over.status, over.record_count, over.good) == ("completed", 3, True)
    with ada.exports.download(over.job_id) as pieces:
        assert hashlib.sha256(b"".join(pieces)).hexdigest() == over.sha256
    again, made = ada.exports.submitted("users", order=["name"], idempotency_key="e")
    assert (again.job_id, made) == (over.job_id, False)
    assert [each.job_id for each in ada.exports.list(status="completed")] == [over.job_id]
    assert ada.exports.cancel(ada.exports.submit("users").job_id).status == "cancelled"
    key = ada.distributions.submit([{"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}])
    assert (ada.distributions.get(key).total, list(ada.distributions.files(key))) == (1, [])
    ada.jobs.cancel(key)
    assert ada.distributions.follow(key, seconds=60).status == "CANCELLED"


def test_an_import_is_followed_by_its_events_and_by_looking_where_there_are_none(
    api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    job = ada.imports.submit(users(7), resource="users").job_id
    worker = threading.Timer(3.0, done, (api.engine, job))
    worker.start()
    over = ada.imports.follow(job, on_look=lambda seen: looks.append(seen.status), seconds=120)
    assert over.good
    assert len(looks) < 15, "nobody looks again and again while events come"
    worker.join()
    with FaultyProxy(Behind(api.url)) as proxy, Client(proxy.endpoint, api.text("ada")) as client:
        proxy.add(Fault("status", method="GET", times=None, status=503, retry_after=0, match="/events"))
        job = client.imports.submit(users(8), resource="users").job_id
        done(api.engine, job)
        assert client.imports.follow(job, seconds=120).good
    other = ada.imports.submit(users(9), resource="users").job_id
    with pytest.raises(TimeoutError):
        ada.imports.follow(other, seconds=1.5)


def test_a_file_is_looked_at_and_mended_records_are_sent(
    api: Api, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ada.imports.preview(SOME + b"x,nobody,Name,reader,true\n", resource="users")
    assert (found.judged, found.rejected, found.problem) == (4, 1, None)
    large = SOME + b"".join(users(number)[len(HEADER) :] for number in range(100_000))
    assert ada.imports.preview(large, resource="users").judged == 1_000
    monkeypatch.setattr(contents, "BEGINNING", 50_000)
    monkeypatch.setattr(contents, "LARGEST_LOOK", 60_000)
    packed = ada.imports.preview(gzip.compress(large), resource="users")
    assert (packed.problem, packed.judged, packed.recognised["compression"]) == (None, 1_000, "gzip")
    with pytest.raises(errors.InvalidInput, match="only a text"):
        ada.imports.preview(b"PAR1" + large, resource="users")
    over = run(api, ada, SOME + b"x,nobody,Name,reader,true\n", resource="users")
    mended = ada.imports.replay(over.job_id, users(5), idempotency_key="m")
    assert (mended.replay_of, mended.job_id != over.job_id) == (over.job_id, True)
    assert done(api.engine, mended.job_id).status == "COMPLETED"
