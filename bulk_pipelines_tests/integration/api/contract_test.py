"""The fields of the answers, as programs of others know them: one that is gone, or has another name, breaks them."""

from typing import Any

import pytest

from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.api_imports import done, sent, users
from bulk_pipelines_tests.scenes.api_items import sent_rows, shop
from bulk_pipelines_tests.servers.provider_server import ProviderServer, Said

JOB = {"job_id", "idempotency_key", "resource_type", "status", "failure_reason"}
TIMES = {"created_at", "started_at", "completed_at"}
RECORDS = {"total_records", "processed_records", "successful_records", "error_records"}
IMPORT = JOB | TIMES | RECORDS | {"mode", "total_is_estimate", "paused"}
EXPORT = JOB | TIMES | {"format", "filters", "fields", "record_count", "file_path", "download_url"}
ROWS = {"jobId", "queue_state", "total_items", "processed_items", "failed_items", "last_heartbeat", "attempts"}
PENDING = {"id", "job_id", "user_id", "job_type", "status", "attempts", "locked_by", "locked_at", "updated_at"}
DISTRIBUTION = {"jobId", "status", "total", "pending", "running", "done", "failed", "filesGenerated", "filesReused"}
INPUT = {"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}
REJECT = b",nobody,Name,reader,true\n"


def got(api: Api, path: str, **params: Any) -> Any:
    return api.client("ada").get(path, params=params).raise_for_status().json()


def test_an_import_has_all_its_fields_and_times(api: Api) -> None:
    job = sent(api.client("ada"), users(1) + REJECT, {"Idempotency-Key": "mine"}).json()["job_id"]
    waits = got(api, f"/v1/imports/{job}")
    assert IMPORT | {"errors"} <= waits.keys()
    assert (waits["status"], waits["started_at"], waits["completed_at"]) == ("pending", None, None)
    done(api.engine, job)
    over = got(api, f"/v1/imports/{job}")
    assert (over["idempotency_key"], over["resource_type"], over["mode"]) == ("mine", "users", "insert")
    assert (over["status"], over["failure_reason"]) == ("completed_with_errors", None)
    assert [over[each] for each in ("total_records", "processed_records", "error_records")] == [2, 2, 1]
    assert over["created_at"] <= over["started_at"] <= over["completed_at"]
    assert {"row", "line", "field", "value", "reason", "reasons"} <= over["errors"][0].keys()
    (listed,) = got(api, "/v1/imports")["imports"]
    assert listed.keys() >= IMPORT


@pytest.mark.parametrize("kind", ["imports", "exports"])
def test_what_is_paused_is_processing_and_says_so(api: Api, kind: str) -> None:
    client = api.client("ada")
    job = (sent(client, users(1)) if kind == "imports" else asked(client, resource="users")).json()["job_id"]
    for action, told in (("pause", ("processing", True)), ("resume", ("processing", False))):
        client.post(f"/api/jobs/{job}/{action}").raise_for_status()
        shown = got(api, f"/v1/{kind}/{job}")
        assert (shown["status"], shown["paused"]) == told
        assert [each["job_id"] for each in got(api, f"/v1/{kind}", status=told[0])[kind]] == [job]
    client.post(f"/v1/{kind}/{job}/cancel").raise_for_status()
    assert got(api, f"/v1/{kind}/{job}")["status"] == "cancelled"


def test_an_export_has_all_its_fields_and_its_path_is_for_administrators(api: Api) -> None:
    job = asked(api.client("ada"), resource="users", fields=["id"]).json()["job_id"]
    completed(api.engine, job)
    mine = got(api, f"/v1/exports/{job}")
    assert mine.keys() >= EXPORT
    assert (mine["format"], mine["fields"], mine["record_count"], mine["file_path"]) == ("csv", ["id"], 0, None)
    assert mine["created_at"] <= mine["started_at"] <= mine["completed_at"]
    assert mine["download_url"].endswith(f"/v1/exports/{job}/download")
    assert api.admin.get(f"/v1/exports/{job}").json()["file_path"]


def test_rows_and_inputs_have_all_their_fields(api: Api) -> None:
    with ProviderServer(lambda _: Said({}, 503)) as server:
        shop(api, server.url)
        job = sent_rows(api, "title,brand,sku\nlamp,Acme,7\n").json()["jobId"]
        api.client("ada").post(f"/api/jobs/{job}/kickoff", params={"durationMs": 20_000}).raise_for_status()
    assert got(api, f"/api/jobs/{job}").keys() >= ROWS | {"last_error"}
    (item,) = got(api, f"/api/jobs/{job}/items")["items"]
    (waits,) = got(api, "/api/pending")["items"]
    for shown in (item, waits):
        assert shown["status"] == "PENDING"
        assert shown.keys() >= PENDING
    assert [waits[each] for each in ("inputTitle", "inputBrand", "inputSku")] == ["lamp", "Acme", "7"]
    assert not {"input", "result"} & waits.keys(), "never the whole input"
    made = api.client("ada").post("/jobs", json={"inputs": [INPUT]}).json()
    assert made == {"jobId": made["jobId"], "status": "SUBMITTED"}
    assert got(api, f"/jobs/{made['jobId']}").keys() >= DISTRIBUTION | {"errorMessage", "dataContent", "next"}
