"""The client against a real server: what is sent arrives once, whatever the line does."""

import io
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pytest

from bulk_pipelines import errors
from bulk_pipelines.client import Client, Import, uploading
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import errors as of_jobs
from bulk_pipelines.imports.sent import appending
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_clients import SOME, run
from bulk_pipelines_tests.scenes.api_imports import count, landed, uploads_left, users
from bulk_pipelines_tests.servers.faulty_proxy import Behind, Fault, FaultyProxy


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
    """The file has its header once, and the client holds only some thousand rows of it."""
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
