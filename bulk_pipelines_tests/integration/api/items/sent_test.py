"""Rows over HTTP, from their submission to their export."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import httpx
import openpyxl
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.processing import control
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_imports import landed
from bulk_pipelines_tests.scenes.api_items import job_of, prices, products, sent_rows, shop, worked
from bulk_pipelines_tests.servers.provider_server import ProviderServer


def test_rows_come_in_pieces_too(api: Api, provider: ProviderServer) -> None:
    ada, content = api.client("ada"), products("lamp", "none1", "chair").encode()

    def begin(key: str = "", recipe: str = "products", owner: str = "ada") -> httpx.Response:
        headers = {"Upload-Complete": "?0", "Content-Type": "text/csv", "Upload-Length": str(len(content))}
        headers |= {"Idempotency-Key": key} if key else {}
        return api.client(owner).post("/api/jobs", params={"recipe": recipe}, content=b"", headers=headers)

    def append(place: str, offset: int, data: bytes, complete: bool) -> httpx.Response:
        told = {"Upload-Offset": str(offset), "Upload-Complete": "?1" if complete else "?0"}
        return ada.patch(place, content=data, headers={"Content-Type": "application/partial-upload", **told})

    assert begin(recipe="nothing").status_code == 400
    place = begin("k1").headers["Location"]
    assert append(place, 0, content[:9], complete=False).status_code == 204
    assert append(place, 5, content[5:], complete=True).status_code == 409
    assert ada.head(place).headers["Upload-Offset"] == "9"
    assert api.client("eve").head(place).status_code == 404
    last = append(place, 9, content[9:], complete=True)
    assert (last.status_code, last.headers["Location"]) == (202, f"/api/jobs/{last.json()['jobId']}"), last.text
    again = append(place, len(content), b"", complete=True)
    assert (again.status_code, again.json()["jobId"]) == (200, last.json()["jobId"])
    repeated = begin("k1")
    assert (repeated.status_code, repeated.json()["jobId"]) == (200, last.json()["jobId"])
    assert worked(api, last.json()["jobId"])["total_items"] == 3
    assert [each for each in landed(api) if "/sent-" in each] == [], "the parts are gone"


def test_from_the_upload_to_the_export(api: Api, provider: ProviderServer) -> None:
    ada = api.client("ada")
    sent = sent_rows(api, products("lamp", "none1", "bad1", "chair"), {"X-Request-ID": "r-1"})
    assert sent.status_code == 202
    key = sent.json()["jobId"]
    assert sent.headers["Location"] == f"/api/jobs/{key}"
    assert int(sent.headers["Retry-After"]) > 0
    assert "jobs" in sent.headers["RateLimit"]
    job = ada.get(f"/api/jobs/{key}").json()
    assert (job["queue_state"], job["status"], job["total_items"], job["total_is_final"]) == (
        "QUEUED",
        "SUBMITTED",
        0,
        False,
    )
    assert (job["recipe"], job["job_type"], job["user_id"]) == ("products", "process_lookup", "ada")
    assert (job["request_id"], job["ip_address"]) == ("r-1", "127.0.0.1")
    assert len(landed(api)) == 1
    over = worked(api, key)
    assert landed(api) == [], "its rows are items, and nobody reads the file again"
    assert (over["queue_state"], over["processed_items"], over["failed_items"]) == ("FAILED", 4, 1)
    assert over["items"] == {"PENDING": 0, "PROCESSING": 0, "DONE": 2, "ERROR": 1, "NOT_FOUND": 1, "SKIPPED": 0}
    assert over["last_heartbeat"] is not None
    page = ada.get(f"/api/jobs/{key}/items", params={"sort": "row"}).json()
    assert [(row["inputTitle"], row["status"]) for row in page["items"]] == [
        ("lamp", "DONE"),
        ("none1", "NOT_FOUND"),
        ("bad1", "ERROR"),
        ("chair", "DONE"),
    ]
    first, _, failed, _ = page["items"]
    assert (first["inputBrand"], first["inputSku"], first["item_key"]) == ("Acme", "S-1", "000000001")
    assert (first["result"]["Price"], first["result"]["Outcome"]) == ("1.50", "matched")
    assert "answered 400" in failed["last_error"]
    assert page["total"] == 4
    # The file is the grid, in both formats.
    exported = ada.post(f"/api/jobs/{key}/export", params={"format": "csv"})
    assert exported.headers["Content-Disposition"] == f'attachment; filename="{key}.csv"'
    rows = list(csv.DictReader(io.StringIO(exported.text, newline="")))
    assert rows == [{name: cell or "" for name, cell in row["result"].items()} for row in page["items"]]
    sheet = openpyxl.load_workbook(io.BytesIO(ada.post(f"/api/jobs/{key}/export").content)).active
    assert sheet is not None
    header, *cells = [[cell or "" for cell in row] for row in sheet.iter_rows(values_only=True)]
    assert [dict(zip(header, row, strict=True)) for row in cells] == rows
    listed = ada.get("/api/jobs", params={"status": "FAILED,RUNNING", "jobType": "process_lookup"}).json()
    assert [each["jobId"] for each in listed["jobs"]] == [key]
    assert ada.get("/api/jobs", params={"status": "DONE"}).json()["jobs"] == []


def test_the_forms_of_a_request(api: Api, provider: ProviderServer) -> None:
    ada, rows = api.client("ada"), products("lamp").encode()
    form = ada.post("/api/jobs", data={"recipe": "products", "priority": "3"}, files={"file": ("p.csv", rows)})
    assert form.status_code == 202, form.text
    packed = sent_rows(api, gzip.compress(rows), {"Content-Encoding": "gzip"})
    lines = sent_rows(api, b'{"title": "lamp"}\n', {"Content-Type": "application/x-ndjson"}, format="ndjson")
    for each in (form, packed, lines):
        over = worked(api, each.json()["jobId"])
        assert (over["queue_state"], over["total_items"]) == ("DONE", 1), over["last_error"]
    waited = sent_rows(api, rows, {"Prefer": "wait=0"})
    assert (waited.status_code, waited.headers["Preference-Applied"]) == (202, "wait=0")


def test_rows_are_read_as_the_request_says(api: Api, provider: ProviderServer) -> None:
    """A form and the address may both say how; expressions are for administrators, as they are for imports."""
    rows, ada = "Nr;Produkt\n1;Käse\n".encode("cp1252"), api.client("ada")
    told = {"recipe": "products", "encoding": "cp1252", "map": '{"title": "Produkt"}', "constants": "brand=Acme"}
    form = ada.post("/api/jobs", data=told, files={"file": ("p.csv", rows)})
    body = ada.post("/api/jobs", params=told, content=rows, headers={"Content-Type": "text/csv"})
    for answer in (form, body):
        assert answer.status_code == 202, answer.text
        worked(api, answer.json()["jobId"])
        (call,) = provider.calls[-1:]
        assert call.params["q"] == "Käse Acme"
    refused = ada.post("/api/jobs", data=told | {"expressions": "x=1"}, files={"file": ("p.csv", rows)})
    assert refused.status_code == 403
    wrong = ada.post("/api/jobs", data=told | {"decimal": "x"}, files={"file": ("p.csv", rows)})
    assert (wrong.status_code, "neither a comma nor a point" in wrong.text) == (400, True)


def test_files_of_the_server_are_named_by_administrators_below_the_folders(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    open_folder, closed = tmp_path / "open", tmp_path / "closed"
    open_folder.mkdir()
    closed.mkdir()
    (open_folder / "rows.csv").write_text(products("lamp", "chair"))
    (closed / "secret.csv").write_text(products("secret"))
    (open_folder / "link.csv").symlink_to(closed / "secret.csv")
    with ProviderServer(prices) as server, serving_here(engine, tmp_path / "home", api_folders=str(open_folder)) as api:
        shop(api, server.url)

        def ask(url: Path, owner: str = "root", scope: Scope = Scope.ADMIN) -> Any:
            return api.client(owner, scope).post("/api/jobs", json={"recipe": "products", "url": str(url)})

        assert ask(open_folder / "rows.csv", "ada", Scope.WRITE).status_code == 403
        assert ask(closed / "secret.csv").status_code == 403
        key = ask(open_folder / "rows.csv").json()["jobId"]
        assert control.kick_off(engine, key, 30).job.status is JobState.COMPLETED
        link = ask(open_folder / "link.csv").json()["jobId"]
        refused = api.admin.post(f"/api/jobs/{link}/kickoff")
        assert (refused.status_code, refused.json()["type"]) == (400, "/problems/unsafe-path")
        assert job_of(api, link).total_items == 0


def test_the_same_request_again(api: Api, provider: ProviderServer) -> None:
    key = {"Idempotency-Key": "k"}
    first = sent_rows(api, products("lamp"), key)
    again = sent_rows(api, products("lamp"), key)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.json()["jobId"] == first.json()["jobId"]
    other = sent_rows(api, products("chair"), key)
    assert (other.status_code, other.json()["job_id"]) == (422, first.json()["jobId"])
    assert sent_rows(api, products("lamp"), key, format="csv").status_code == 422
    assert sent_rows(api, products("lamp"), key, owner="eve").status_code == 202
    assert len(landed(api)) == 2
    named = {"recipe": "products", "url": "https://example.org/rows.csv"}
    for expected in (202, 200):
        answered = api.client("ada").post("/api/jobs", json=named, headers={"Idempotency-Key": "by address"})
        assert answered.status_code == expected


@pytest.mark.parametrize(
    ("content", "headers", "params", "field"),
    [
        (b"title\nlamp\n", {}, {"recipe": ""}, "recipe"),
        (b"title\nlamp\n", {}, {"recipe": "nothing"}, "recipe"),
        (b"title\nlamp\n", {}, {"format": "xls"}, "format"),
        (b"title\nlamp\n", {}, {"compression": "rar"}, "compression"),
        (b"title\nlamp\n", {}, {"priority": "high"}, "priority"),
        (b"{}", {"Content-Type": "application/json"}, {}, "recipe"),
        (b'{"recipe": "products", "url": "x", "rows": []}', {"Content-Type": "application/json"}, {}, "rows"),
        (b'{"recipe": "products", "url": "gopher://x/"}', {"Content-Type": "application/json"}, {}, "url"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(
    api: Api, provider: ProviderServer, content: bytes, headers: dict[str, str], params: dict[str, str], field: str
) -> None:
    refused = sent_rows(api, content, headers, **params)
    assert (refused.status_code, refused.json()["field"]) == (400, field), refused.text
    assert landed(api) == []
