"""Distributions over HTTP: the bodies that other programs know, and requests of any size."""

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.serving import bodies
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution.request import MOST
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines_tests.scenes.api import Api, bearer, process, serving_here
from bulk_pipelines_tests.scenes.api_imports import count
from bulk_pipelines_tests.scenes.distribution import Scene
from bulk_pipelines_tests.servers.processes import Place

ABC = {"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}
DEF = {"indexKey": "DEF", "effectiveDate": 20230506, "asofindicator": "ADJCLS"}
FIELDS = [
    *("jobId", "status", "total", "pending", "running", "done", "failed", "filesGenerated", "filesReused"),
    *("errorMessage", "dataContent", "next"),
]


def many(number: int) -> list[dict[str, Any]]:
    return [
        {"indexKey": f"INDEX{each:06}", "effectiveDate": 20240202, "asofindicator": "CLS"} for each in range(number)
    ]


def submitted(client: httpx.Client, inputs: object, **headers: str) -> httpx.Response:
    return client.post("/jobs", json={"inputs": inputs}, headers=headers)


def test_the_bodies_are_to_the_letter(api: Api, s3_bucket: Place) -> None:
    client = api.client("ada")
    answer = submitted(client, [ABC, DEF])
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"jobId": answer.json()["jobId"], "status": "SUBMITTED"}
    assert answer.headers["location"] == f"/jobs/{answer.json()['jobId']}"
    before = client.get(answer.headers["location"]).json()
    assert list(before) == FIELDS
    assert (before["status"], before["total"], before["pending"], before["done"]) == ("SUBMITTED", 2, 2, 0)
    assert before["dataContent"] == []
    scene = Scene(api.engine, s3_bucket)
    scene.have([ABC, DEF])
    with transaction(api.engine) as connection:
        job = jobs.start(connection, answer.json()["jobId"])
    scene.work(job)
    found = client.get(answer.headers["location"]).json()
    day = job.job_key.removeprefix("J")
    folder = f"{s3_bucket.url}/exports/{day[:4]}/{day[4:6]}/{day[6:8]}/{job.job_key}"
    assert found == {
        "jobId": job.job_key,
        "status": "COMPLETED",
        "total": 2,
        "pending": 0,
        "running": 0,
        "done": 2,
        "failed": 0,
        "filesGenerated": 2,
        "filesReused": 0,
        "errorMessage": None,
        "dataContent": [
            ABC | {"s3Path": f"{folder}/ABC_20240202_CLS.csv"},
            DEF | {"s3Path": f"{folder}/DEF_20230506_ADJCLS.csv"},
        ],
        "next": None,
    }
    page = client.get(answer.headers["location"], params={"pageSize": 1}).json()
    rest = client.get(answer.headers["location"], params={"pageSize": 1, "after": page["next"]}).json()
    # Pages go on in the order in which files were settled, which is not always that of the inputs.
    paged = sorted(page["dataContent"] + rest["dataContent"], key=lambda file: file["indexKey"])
    assert paged == found["dataContent"]


def test_a_failed_input_fails_the_job_and_says_why(api: Api, s3_bucket: Place) -> None:
    client = api.client("ada")
    key = submitted(client, [ABC]).json()["jobId"]
    with transaction(api.engine) as connection:
        job = jobs.start(connection, key)
    Scene(api.engine, s3_bucket).work(job)
    found = client.get(f"/jobs/{key}").json()
    assert (found["status"], found["failed"], found["done"], found["dataContent"]) == ("FAILED", 1, 0, [])
    assert "no data of ABC" in found["errorMessage"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "request"),
        (b"{", "request"),
        (b"\xff", "request"),
        (b"[]", "inputs"),
        (b"{}", "inputs"),
        (b'{"inputs": {}}', "inputs"),
        (b'{"inputs": []}', "inputs"),
        (b'{"inputs": [1]}', "inputs[0]"),
        (b"[" * 100_000, "request"),
        (b'{"inputs": [' + b"{}," * (21 * MOST) + b"{}]}", "inputs"),
        (b'{"inputs": ' + b"[" * (21 * MOST), "inputs"),
        (json.dumps({"inputs": many(MOST + 1)}).encode(), "inputs"),
        (json.dumps({"inputs": [ABC, DEF, ABC]}).encode(), "inputs[2]"),
        (json.dumps({"inputs": [ABC | {"indexKey": "a/b"}]}).encode(), "inputs[0].indexKey"),
        (json.dumps({"inputs": [ABC | {"indexKey": "a\0b"}]}).encode(), "inputs[0].indexKey"),
        (b'{"inputs": [{"indexKey": "a", "asofindicator": "CLS", "effectiveDate": 1e999}]}', "inputs[0].effectiveDate"),
        (json.dumps({"inputs": [ABC | {"more": 1}]}).encode(), "inputs[0].more"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:20]),
)
def test_a_wrong_request_writes_nothing(api: Api, body: bytes, field: str) -> None:
    answer = api.client("ada").post("/jobs", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text[:1_000]
    assert count(api.engine, "SELECT count(*) FROM job") == 0


def test_the_same_request_again_names_the_same_job(api: Api) -> None:
    client = api.client("ada")
    first = submitted(client, [ABC, DEF], **{"Idempotency-Key": "k"})
    again = submitted(client, [ABC, DEF], **{"Idempotency-Key": "k"})
    other = submitted(client, [DEF, ABC], **{"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code, other.status_code) == (202, 200, 422)
    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert count(api.engine, "SELECT count(*) FROM job_item") == 2


def test_an_owner_has_so_many_open_items(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path, owner_items=5) as api:
        client = api.client("ada")
        first = submitted(client, many(3), **{"Idempotency-Key": "k"})
        assert '"items";r=2' in first.headers["ratelimit"]
        refused = submitted(client, many(3))
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/over-quota")
        assert int(refused.headers["retry-after"]) > 0
        assert submitted(client, many(3), **{"Idempotency-Key": "k"}).status_code == 200
        assert submitted(api.client("eve"), many(5)).status_code == 202


def test_a_hundred_thousand_inputs_in_one_request(database_url: str, engine: Engine, tmp_path: Path) -> None:
    text = Api(engine, None, "").text("ada")  # type: ignore[arg-type]
    with process(database_url, tmp_path) as (running, url):
        client = httpx.Client(base_url=url, headers=bearer(text), timeout=120)
        assert submitted(client, many(10)).status_code == 202
        before = psutil.Process(running.pid).memory_info().rss
        answer = submitted(client, many(MOST))
        assert answer.status_code == 202, answer.text
        grown = psutil.Process(running.pid).memory_info().rss - before
    assert count(engine, "SELECT count(*) FROM job_item") == MOST + 10
    assert count(engine, "SELECT total_items FROM job ORDER BY job_id DESC LIMIT 1") == MOST
    assert grown < 200 << 20, f"{grown:,} bytes"


def test_bodies_of_many_together_do_not_fill_the_memory(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "HELD_AT_MOST", 1 << 20)
    client = api.client("ada")
    refused = submitted(client, many(20_000))
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/unavailable")
    assert submitted(client, many(10)).status_code == 202


def test_a_body_that_comes_too_slowly_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SILENT_SECONDS", 0.2)
    host, port = api.url.removeprefix("http://").split(":")
    head = f"POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.text('ada')}\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        wire.sendall(head.encode() + b"{")
        received = wire.recv(1 << 16)
    assert received.startswith(b"HTTP/1.1 408")
    assert b"/problems/too-slow" in received
