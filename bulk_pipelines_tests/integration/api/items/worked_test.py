"""Jobs over rows that are paused, kicked off slice by slice, and tried again over HTTP."""

import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.api import Api, bearer, process, serving_here
from bulk_pipelines_tests.scenes.api_items import job_of, prices, products, sent_rows, shop, worked
from bulk_pipelines_tests.scenes.processing import items
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer


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


def test_a_slice_ends_when_the_process_is_asked_to_stop(engine: Engine, database_url: str, tmp_path: Path) -> None:
    """The items of the slice go back, and no attempt is counted for those that were not begun."""
    with ProviderServer(prices, seconds=0.3) as server:
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
