"""Rows over HTTP as they are listed and exported, whatever becomes of them."""

import contextlib
import itertools
from typing import Any

import pytest

from bulk_pipelines.api import streams
from bulk_pipelines.api.items import lists
from bulk_pipelines.engine.items import pages
from bulk_pipelines.processing import control
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_items import products, sent_rows, shop, worked
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.provider_server import ProviderServer, Said


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


def test_readers_who_take_their_time_leave_the_others_served(api: Api, provider: ProviderServer) -> None:
    """Readers that hold a connection for long are refused beyond a few; when these go away, there is room again."""
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
