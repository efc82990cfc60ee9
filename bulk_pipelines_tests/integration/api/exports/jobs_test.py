"""Exports that are jobs: how they are asked for, shown and cancelled, and where their files go."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.api_imports import count
from bulk_pipelines_tests.scenes.export_files import insert_users, names_in
from bulk_pipelines_tests.scenes.waiting import until

PATIENCE = 60.0


def test_an_export_is_a_job_that_is_told_of(api: Api) -> None:
    insert_users(api.engine, 40)
    client = api.client("ada")
    answer = asked(
        client, resource="users", format="ndjson", filters={"role": "admin"}, where=["created_at>=2000-01-01"]
    )
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/exports/{answer.json()['job_id']}"
    assert int(answer.headers["retry-after"]) > 0
    assert '"jobs";r=' in answer.headers["ratelimit"]
    first = answer.json()
    assert (first["status"], first["resource_type"], first["format"]) == ("pending", "users", "ndjson")
    assert first["filters"] == {"role": "admin"}
    assert first["where"] == ["created_at>=2000-01-01", "role=admin"]
    assert (first["owner"], first["request_id"]) == ("ada", answer.headers["x-request-id"])
    assert (first["download_url"], first["sha256"], first["completed_at"]) == (None, None, None)
    early = client.get(f"/v1/exports/{first['job_id']}/download")
    assert (early.status_code, early.json()["type"]) == (409, "/problems/wrong-state")
    job = completed(api.engine, first["job_id"])
    assert job.result is not None
    found = client.get(answer.headers["location"]).json()
    assert (found["status"], found["record_count"], found["bytes"]) == (
        "completed",
        job.result["rows"],
        job.result["bytes"],
    )
    assert found["file_path"] is None
    assert api.admin.get(answer.headers["location"]).json()["file_path"] == job.result["location"]
    content = client.get(found["download_url"])
    assert hashlib.sha256(content.content).hexdigest() == found["sha256"] == job.result["sha256"]
    assert content.headers["content-type"] == "application/x-ndjson"
    listed = client.get("/v1/exports", params={"status": "completed", "resource_type": "users"}).json()
    assert [each["job_id"] for each in listed["exports"]] == [first["job_id"]]
    assert client.get("/v1/exports", params={"resource_type": "articles"}).json() == {"exports": [], "next": None}
    assert api.client("eve").get("/v1/exports").json()["exports"] == []
    asked(client, resource="articles")
    page = client.get("/v1/exports", params={"size": 1}).json()
    assert page["exports"][0]["resource_type"] == "articles"
    rest = client.get("/v1/exports", params={"size": 1, "after": page["next"]}).json()
    assert [each["job_id"] for each in rest["exports"]] == [first["job_id"]]


def test_one_of_many_equal_requests_makes_the_job(api: Api) -> None:
    client = api.client("ada")

    def ask(_number: int) -> httpx.Response:
        return asked(client, {"Idempotency-Key": "daily"}, resource="users", fields=["id"])

    with ThreadPoolExecutor(8) as executor:
        answers = list(executor.map(ask, range(20)))
    assert sorted({answer.status_code for answer in answers}) == [200, 202]
    assert [answer.status_code for answer in answers].count(202) == 1
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert all("idempotent-replayed" in answer.headers for answer in answers if answer.status_code == 200)
    other = asked(client, {"Idempotency-Key": "daily"}, resource="users", fields=["email"])
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
    assert other.json()["job_id"] == answers[0].json()["job_id"]
    assert asked(api.client("eve"), {"Idempotency-Key": "daily"}, resource="users").status_code == 202


def test_cancelled_it_leaves_nothing(api: Api) -> None:
    client = api.client("ada")
    key = asked(client, resource="users").json()["job_id"]
    assert client.post(f"/v1/exports/{key}/cancel").json()["status"] == "cancelled"
    assert client.post(f"/v1/exports/{key}/cancel").json()["status"] == "cancelled"
    assert client.get(f"/v1/exports/{key}/download").status_code == 409
    assert not (api.settings.home / "exports").exists() or names_in(api.settings.home / "exports") == []
    entries = client.get("/api/audit", params={"job": key}).json()["entries"]
    assert [(each["action"], each["actor"]) for each in entries] == [("cancel", "ada"), ("submit", "ada")]
    done = asked(client, resource="users").json()["job_id"]
    completed(api.engine, done)
    late = client.post(f"/v1/exports/{done}/cancel")
    assert (late.status_code, late.json()["type"]) == (409, "/problems/wrong-state")


def test_only_administrators_say_where_a_file_goes(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    with serving_here(engine, tmp_path / "home", api_folders=str(folder)) as api:
        refused = asked(api.client("ada"), resource="users", to=f"{folder}/x.csv")
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/forbidden")
        for to in (f"{tmp_path}/x.csv", f"{folder}/../x.csv", str(tmp_path)):
            assert asked(api.admin, resource="users", to=to).status_code in (400, 403), to
        made = asked(api.admin, resource="users", to=f"{folder}/x.csv")
        assert made.status_code == 202, made.text
        completed(engine, made.json()["job_id"])
        assert names_in(folder) == ["x.csv"]
        url = f"/v1/exports/{made.json()['job_id']}/download"
        tag = api.admin.get(url).headers["etag"]
        (folder / "x.csv").write_bytes(b"x" * (folder / "x.csv").stat().st_size)
        assert api.admin.get(url).headers["etag"] != tag


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "resource"),
        ({"resource": "users", "wher": ["role=admin"]}, "wher"),
        ({"resource": "users", "priority": 101}, "priority"),
        ({"resource": "users", "filters": {"role": 7}}, "role"),
        ({"resource": "users", "where": ["role in admin,"]}, "role"),
        ({"resource": "us\0ers"}, "resource"),
    ],
)
def test_a_wrong_request_makes_no_job(api: Api, body: dict[str, object], field: str) -> None:
    answer = api.client("ada").post("/v1/exports", json=body)
    assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text
    assert count(api.engine, "SELECT count(*) FROM job") == 0


def test_the_answer_waits_for_the_end_of_a_small_export(api: Api) -> None:
    insert_users(api.engine, 5)
    client = api.client("ada")
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(asked, client, {"Prefer": "wait=60"}, resource="users")
        until(lambda: count(api.engine, "SELECT count(*) FROM job") == 1, "the job is there", PATIENCE)
        with transaction(api.engine) as connection:
            row = connection.execute("SELECT job_key FROM job").fetchone()
        assert row is not None
        completed(api.engine, row[0])
        answer = waiting.result()
    assert (answer.status_code, answer.json()["status"]) == (200, "completed")
    assert answer.headers["preference-applied"] == "wait=60"
