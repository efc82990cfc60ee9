"""Rows over HTTP, from their submission to their export."""

import contextlib
import csv
import gzip
import io
import itertools
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openpyxl
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api import streams
from bulk_pipelines.api.items import lists
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.engine.items import pages
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.processing import control
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.api import Api, bearer, process, serving_here
from bulk_pipelines_tests.scenes.api_imports import landed
from bulk_pipelines_tests.scenes.api_items import job_of, products, sent_rows, shop
from bulk_pipelines_tests.scenes.processing import items
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said


def answer(call: Call) -> Any:
    """Find what begins with a letter, nothing for `none…`, and refuse `bad…`."""
    query = call.params["q"].split()[0]
    if query.startswith("bad"):
        return Said({}, 400)
    return items() if query.startswith("none") else items((query, 0.9, "1.50"))


@pytest.fixture
def provider(api: Api) -> Iterator[ProviderServer]:
    with ProviderServer(answer) as server:
        shop(api, server.url, "keep_nothing_days = 0", "not_found_attempts = 1\nattempts = 1")
        yield server


def worked(api: Api, job_key: str) -> dict[str, Any]:
    """Kick the job off until it is over, as a browser does."""
    ada = api.client("ada")
    for _ in range(100):
        kicked = ada.post(f"/api/jobs/{job_key}/kickoff", params={"durationMs": 2_000}).json()
        if kicked["queue_state"] in ("DONE", "FAILED"):
            return dict(kicked)
    raise AssertionError(kicked)


def walked(api: Api, path: str, **params: Any) -> list[list[dict[str, Any]]]:
    """Return all pages of a list."""
    found, after = [], None
    while True:
        page = api.client("ada").get(path, params={**params, **({"after": after} if after else {})})
        assert page.status_code == 200, page.text
        found.append(page.json()["items"])
        after = page.json()["next"]
        if after is None:
            return found


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
    """In a form and in the address; expressions are for administrators, as they are for imports."""
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
    with ProviderServer(answer) as server, serving_here(engine, tmp_path / "home", api_folders=str(open_folder)) as api:
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


def test_both_listings_show_the_same_rows(api: Api, provider: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST", 4)
    titles = [f"{name}{number}" for number in range(6) for name in ("lamp", "none", "bad")]
    key = sent_rows(api, products(*titles)).json()["jobId"]
    worked(api, key)
    path = f"/api/jobs/{key}/items"
    by_key = walked(api, path, pageSize=4)
    assert [len(page) for page in by_key] == [4, 4, 4, 4, 2]
    everything = list(itertools.chain(*by_key))
    assert sorted(row["inputTitle"] for row in everything) == sorted(titles)
    ada = api.client("ada")
    for number, expected in enumerate(by_key, 1):
        page = ada.get(path, params={"page": number, "pageSize": 4}).json()
        assert (page["items"], page["total"]) == (expected, 18)
    assert ada.get(path, params={"page": 6, "pageSize": 4}).json()["items"] == []
    assert ada.get(path, params={"page": 99, "pageSize": 4}).json()["items"] == []
    in_order = list(itertools.chain(*walked(api, path, pageSize=4, sort="row")))
    assert [row["inputTitle"] for row in in_order] == titles
    assert ada.get(path, params={"page": 2, "pageSize": 4, "sort": "row"}).json()["items"] == in_order[4:8]
    for params in ({"statuses": "ERROR,NOT_FOUND"}, {"status": ["error", "not_found"]}):
        page = ada.get(path, params={**params, "pageSize": 4}).json()
        assert {row["status"] for row in page["items"]} <= {"ERROR", "NOT_FOUND"}
        assert page["total"] == 12
    wrong_ones: list[dict[str, Any]] = [
        {"statuses": "GONE"},
        {"page": 0},
        {"page": lists.DEEPEST, "pageSize": 4},
        {"page": 2, "after": "x"},
        {"sort": "row", "statuses": "DONE"},
        {"after": "x"},
        {"after": ada.get(path, params={"pageSize": 1, "sort": "row"}).json()["next"]},
        {"pageSize": 0},
        {"pageSize": 100_000},
        {"sort": "price"},
    ]
    for wrong in wrong_ones:
        refused = ada.get(path, params=wrong)
        assert refused.status_code == 400, wrong


def test_what_waits_for_a_retry_is_pending_and_says_when_it_is_due(api: Api) -> None:
    with ProviderServer(lambda _: Said({}, 503)) as server:
        shop(api, server.url)
        key = sent_rows(api, products("lamp")).json()["jobId"]
        kicked = api.client("ada").post(f"/api/jobs/{key}/kickoff", params={"durationMs": 20_000}).json()
        assert (kicked["queue_state"], kicked["items"]["PENDING"]) == ("RUNNING", 1)
        assert kicked["ended"] == "only waiting items are left"
        assert kicked["retry_after_ms"] >= 0
    (row,) = api.client("ada").get(f"/api/jobs/{key}/items", params={"statuses": "PENDING"}).json()["items"]
    assert (row["status"], row["state"], row["attempts"], row["locked_by"]) == ("PENDING", "RETRY_WAIT", 1, None)
    assert row["due_at"] > row["updated_at"]


def test_control(api: Api, provider: ProviderServer) -> None:
    ada = api.client("ada")
    key = sent_rows(api, products("lamp")).json()["jobId"]
    for verb, state in (("pause", "PAUSED"), ("pause", "PAUSED"), ("resume", "RUNNING"), ("resume", "RUNNING")):
        assert ada.post(f"/api/jobs/{key}/{verb}").json()["queue_state"] == state
    cancelled = ada.post(f"/api/jobs/{key}/cancel").json()
    assert (cancelled["queue_state"], cancelled["status"]) == ("FAILED", "CANCELLED")
    refused = ada.post(f"/api/jobs/{key}/resume")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/wrong-state")
    assert ada.post(f"/api/jobs/{key}/reprocess", json={}).status_code == 409
    done = api.admin.get("/api/audit", params={"job": key}).json()["entries"]
    assert [each["action"] for each in done] == ["cancel", "resume", "pause", "submit"]


def test_rows_are_tried_again_as_somebody_chooses(api: Api, provider: ProviderServer) -> None:
    ada = api.client("ada")
    content = "title,brand\nbad1,A\nbad2,B\nnone1,A\nlamp,A\n"
    key = sent_rows(api, content).json()["jobId"]
    worked(api, key)
    rows = {row["inputTitle"]: row["id"] for row in ada.get(f"/api/jobs/{key}/items").json()["items"]}

    def count(**body: Any) -> int:
        answered = ada.post(f"/api/jobs/{key}/reprocess", json={**body, "dryRun": True})
        assert answered.status_code == 200, answered.text
        assert answered.json()["dryRun"] is True
        return int(answered.json()["items"])

    assert count() == 3
    assert count(scope="job", statuses=["ERROR"]) == 2
    assert count(statuses=["NOT_FOUND"]) == 1
    assert count(where={"brand": "A"}) == 2
    assert count(where={"brand": "A"}, statuses=["ERROR"], error="ANSWERED 400", errorClass="permanent") == 1
    assert count(scope="items", itemIds=[rows["bad1"], int(rows["none1"]), rows["lamp"]]) == 2
    assert count(resetAttempts=False) == 0, "all attempts are spent"
    assert engine_jobs.rows(api.engine, job_of(api, key))["000000001"].status == "DLQ", "a dry run changes nothing"
    for wrong in (
        {"scope": "all"},
        {"scope": "items"},
        {"scope": "items", "itemIds": []},
        {"itemIds": ["1"]},
        {"scope": "items", "itemIds": ["x"]},
        {"scope": "items", "itemIds": ["-1"]},
        {"scope": "items", "itemIds": ["9" * 19]},
        {"scope": "items", "itemIds": [1.5]},
        {"statuses": ["DONE"]},
        {"where": {"a\0": "x"}},
        {"where": {"brand": "\0"}},
        {"error": "\0"},
        {"errorClass": "strange"},
        {"variants": ["none"]},
        {"filter": "x"},
    ):
        refused = ada.post(f"/api/jobs/{key}/reprocess", json=wrong)
        assert refused.status_code == 400, (wrong, refused.text)
    surrogate = ada.post(f"/api/jobs/{key}/reprocess", content=b'{"where": {"brand": "\\ud800"}}')
    assert surrogate.status_code == 400
    answered = ada.post(f"/api/jobs/{key}/reprocess", json={"statuses": ["NOT_FOUND"], "variants": ["title"]})
    assert answered.json() == {"jobId": key, "items": 1, "dryRun": False}
    assert ada.get(f"/api/jobs/{key}").json()["queue_state"] == "RUNNING"
    assert worked(api, key)["items"]["NOT_FOUND"] == 1


def test_only_some_slices_are_worked_at_once(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    asked, go = threading.Event(), threading.Event()

    def slow(_: Call) -> Any:
        asked.set()
        assert go.wait(60)
        return items(("x", 0.9, "1"))

    with ProviderServer(slow) as server, serving_here(engine, tmp_path / "home", api_kick_offs=1) as api:
        shop(api, server.url, "read_seconds = 60\n")
        key = sent_rows(api, products("lamp", "chair")).json()["jobId"]
        ada = api.client("ada")
        first = threading.Thread(target=lambda: ada.post(f"/api/jobs/{key}/kickoff", timeout=90))
        first.start()
        assert asked.wait(60)
        refused = api.client("ada").post(f"/api/jobs/{key}/kickoff")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        (running, *_) = (
            api.client("ada").get(f"/api/jobs/{key}/items", params={"statuses": "PROCESSING"}).json()["items"]
        )
        assert running["locked_by"]
        assert running["locked_at"] <= running["locked_until"]
        go.set()
        first.join(60)
        until(lambda: ada.post(f"/api/jobs/{key}/kickoff").status_code == 200, "there is room again", 60)


@pytest.mark.parametrize("milliseconds", ["0", "-1", "60001", "x", "1e3"])
def test_a_slice_is_bounded(api: Api, provider: ProviderServer, milliseconds: str) -> None:
    key = sent_rows(api, products("lamp")).json()["jobId"]
    refused = api.client("ada").post(f"/api/jobs/{key}/kickoff", params={"durationMs": milliseconds})
    assert (refused.status_code, refused.json()["field"]) == (400, "durationMs")


def test_other_kinds_of_jobs_are_shown_and_not_worked_here(api: Api) -> None:
    job = engine_jobs.running(api.engine, 3, owner="ada")
    ada = api.client("ada")
    shown = ada.get(f"/api/jobs/{job.job_key}").json()
    assert (shown["job_type"], shown["recipe"], shown["items"]["PENDING"]) == ("work", None, 3)
    page = ada.get(f"/api/jobs/{job.job_key}/items").json()
    assert [row["result"] for row in page["items"]] == [None] * 3
    assert ada.post(f"/api/jobs/{job.job_key}/pause").json()["queue_state"] == "PAUSED"
    for path in ("kickoff", "export"):
        refused = ada.post(f"/api/jobs/{job.job_key}/{path}")
        assert (refused.status_code, refused.json()["field"]) == (400, "job")
    assert ada.post(f"/api/jobs/{job.job_key}/reprocess", json={}).status_code == 400


def test_a_slice_ends_when_the_process_is_asked_to_stop(engine: Engine, database_url: str, tmp_path: Path) -> None:
    """Its items go back, and no attempt is counted for those that were not begun."""
    with ProviderServer(answer, seconds=0.3) as server:
        with serving_here(engine, tmp_path / "home") as api:
            shop(api, server.url)
            key = sent_rows(api, products(*[f"lamp{number}" for number in range(200)])).json()["jobId"]
            text = api.text("ada")
        with process(database_url, tmp_path / "home") as (running, url):
            answers: list[httpx.Response] = []
            path = f"{url}/api/jobs/{key}/kickoff"
            kick = threading.Thread(
                target=lambda: answers.append(
                    httpx.post(path, params={"durationMs": 60_000}, headers=bearer(text), timeout=90)
                )
            )
            kick.start()
            until(lambda: job_of(api, key).succeeded_items > 0, "some rows are done", 60)
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 0
            kick.join(30)
    assert answers[0].json()["ended"] == "stopped"
    job = job_of(api, key)
    assert (job.running_items, job.status) == (0, JobState.RUNNING)
    assert 0 < job.succeeded_items < 200
    rows = engine_jobs.rows(engine, job).values()
    assert {row.attempt_count for row in rows if row.status == "PENDING"} == {0}
    engine_jobs.check_counters(engine, job)


def test_readers_who_take_their_time_leave_the_others_served(api: Api, provider: ProviderServer) -> None:
    """As many as hold a connection for long are refused beyond a few; when they go away, there is room again."""
    key = sent_rows(api, products(*["lamp" * 200] * 5_000)).json()["jobId"]
    control.kick_off(api.engine, key, 0.1)
    until(lambda: control.kick_off(api.engine, key, 0.1).job.total_items == 5_000, "the rows are there", 60)
    path, ada = f"/api/jobs/{key}/export", api.client("ada")
    with contextlib.ExitStack() as slow:
        for _ in range(streams.OF_OWNER):
            answer = slow.enter_context(api.client("ada").stream("POST", path, params={"format": "csv"}))
            assert answer.status_code == 200
        refused = ada.post(path, params={"format": "csv"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        assert ada.get(f"/api/jobs/{key}").status_code == 200
    until(lambda: ada.post(path, params={"format": "csv"}).status_code == 200, "there is room again", 60)
