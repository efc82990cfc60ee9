"""The items of all jobs: whose they are, which are shown, and how little of their inputs."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.engine.outcomes import Bury, RetryLater
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.engine_jobs import claimed, running, settled


def pending(client: httpx.Client, **params: Any) -> list[dict[str, Any]]:
    found, after = [], None
    while True:
        answer = client.get("/api/pending", params={**params, **({"after": after} if after else {})})
        assert answer.status_code == 200, answer.text
        found += answer.json()["items"]
        after = answer.json()["next"]
        if after is None:
            return found


def test_whose_items_are_shown(api: Api) -> None:
    hers = [running(api.engine, 3, owner="ada"), running(api.engine, 2, owner="ada")]
    his = running(api.engine, 4, owner="bob")
    ada, root = api.client("ada"), api.admin
    assert [row["job_id"] for row in pending(ada, pageSize=2)] == [hers[0].job_key] * 3 + [hers[1].job_key] * 2
    assert {row["user_id"] for row in pending(ada, userId="me")} == {"ada"}
    assert pending(ada, userId="ada") == pending(ada)
    assert pending(root) == []
    assert len(pending(root, userId="all", pageSize=3)) == 9
    assert len(pending(root, userId="bob")) == 4
    for user in ("all", "bob"):
        refused = ada.get("/api/pending", params={"userId": user})
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/forbidden")
    assert len(pending(ada, jobId=hers[0].job_key)) == 3
    assert pending(ada, jobId=hers[0].job_key, jobType="import_users") == []
    assert ada.get("/api/pending", params={"jobId": his.job_key}).status_code == 404
    assert len(pending(root, userId="all", jobId=his.job_key)) == 4
    assert len(pending(ada, jobType="work")) == 5
    assert pending(ada, jobType="import_users") == []


def test_which_items_are_shown(api: Api) -> None:
    job = running(api.engine, 10, owner="ada")
    settled(api.engine, job, claimed(api.engine, job, 2), Bury("bad"))
    settled(api.engine, job, claimed(api.engine, job, 3), RetryLater("later", after=1_000))
    claimed(api.engine, job, 1, owner="worker 7")
    ada = api.client("ada")
    shown = pending(ada, pageSize=3)
    assert sorted(row["status"] for row in shown) == ["PENDING"] * 7 + ["PROCESSING"]
    assert [row["updated_at"] for row in shown] == sorted(row["updated_at"] for row in shown)
    (held,) = pending(ada, statuses="processing")
    assert (held["locked_by"], held["state"]) == ("worker 7", "RUNNING")
    assert [row["status"] for row in pending(ada, statuses=["ERROR", "DONE"])] == ["ERROR", "ERROR"]
    middle = shown[4]["updated_at"]
    early, late = pending(ada, to=middle, pageSize=2), pending(ada, **{"from": middle}, pageSize=2)
    assert [row["id"] for row in early + late] == [row["id"] for row in shown]
    assert early
    assert late


def test_inputs_are_never_sent(api: Api) -> None:
    long = {"title": "x" * 100_000, "brand": {"secret": 1}, "more": [1] * 1_000, "sku": 7, "password": "y" * 1_000}
    running(api.engine, [("k", long)], owner="ada")
    answer = api.client("ada").get("/api/pending")
    (row,) = answer.json()["items"]
    assert (row["inputTitle"], row["inputBrand"], row["inputSku"]) == ("x" * 200, None, "7")
    assert len(answer.content) < 2_000


@pytest.mark.parametrize(
    "params",
    [
        {"statuses": "WAITING"},
        {"statuses": "\ud7ff"},
        {"after": "x"},
        {"after": "é" * 100},
        {"pageSize": "0"},
        {"pageSize": "1001"},
        {"from": "yesterday"},
        {"from": "0001-01-01T00:00:00+14:00"},
        {"to": "9999-12-31T23:59:59-14:00"},
        {"jobType": "x" * 201},
    ],
)
def test_what_is_wrong_is_said(api: Api, params: dict[str, str]) -> None:
    refused = api.client("ada").get("/api/pending", params=params)
    assert refused.status_code == 400, refused.text
    assert refused.json()["field"] in {*params, "statuses"}, json.dumps(refused.json())


def test_the_list_can_be_taken_away(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path, pending_dashboard=False) as api:
        job = running(engine, 1, owner="ada")
        ada = api.client("ada")
        refused = ada.get("/api/pending")
        assert (refused.status_code, refused.json()["type"]) == (404, "/problems/no-such-endpoint")
        assert len(ada.get(f"/api/jobs/{job.job_key}/items").json()["items"]) == 1
