"""What is shown of imports, what can be done with them, and who waits for their end."""

import json
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import audit
from bulk_pipelines.imports.load import rejects
from bulk_pipelines_tests.scenes.api import Api, bearer
from bulk_pipelines_tests.scenes.api_imports import (
    HEADER,
    count,
    done,
    line,
    sent,
    users,
)


def test_lists_go_by_pages_and_show_only_ones_own(api: Api) -> None:
    client = api.client("ada")
    mine = [sent(client, users(number)).json()["job_id"] for number in range(1, 6)]
    sent(api.client("eve"), users(9))
    done(api.engine, mine[0])
    seen, after = [], None
    while True:
        page = client.get("/v1/imports", params={"size": 2, **({"after": after} if after else {})}).json()
        seen += [each["job_id"] for each in page["imports"]]
        after = page["next"]
        if after is None:
            break
    assert seen == mine[::-1]

    def listed(who: httpx.Client, **params: Any) -> list[str]:
        return [each["job_id"] for each in who.get("/v1/imports", params=params).json()["imports"]]

    assert listed(client, status="completed") == mine[:1]
    assert listed(client, status=["completed", "pending"]) == mine[::-1]
    assert listed(client, resource_type="articles") == []
    assert listed(client, resource_type="planets") == []
    assert listed(client, **{"from": "2100-01-01T00:00:00Z"}) == []
    assert listed(client, to="2100-01-01T00:00:00Z") == mine[::-1]
    assert len(listed(api.admin)) == 6
    assert listed(api.admin, owner="ada") == mine[::-1]
    assert client.get("/v1/imports", params={"owner": "eve"}).status_code == 403
    assert client.get("/v1/imports", params={"status": "done"}).status_code == 400


def test_an_administrator_submits_for_others(api: Api) -> None:
    answer = sent(api.admin, users(1), owner="ada")
    assert answer.json()["owner"] == "ada"
    assert api.client("ada").get(answer.headers["Location"]).status_code == 200
    assert sent(api.client("eve"), users(1), owner="ada").status_code == 403
    with transaction(api.engine) as connection:
        (entry, *_) = audit.page(connection, audit.Wanted(action="submit"))
    assert (entry.actor, entry.owner, entry.origin, entry.address) == ("root", "ada", "api", "127.0.0.1")


def test_rejects_are_shown_downloaded_and_run_again(api: Api) -> None:
    client = api.client("ada")
    content = (HEADER + line(1) + line(2, "nobody") + line(3) + line(4, "no@one@x") + line(5)).encode()
    job_id = sent(client, content).json()["job_id"]
    early = client.get(f"/v1/imports/{job_id}/records/failed")
    assert (early.status_code, early.json()["type"]) == (409, "/problems/conflict")
    done(api.engine, job_id)
    shown = client.get(f"/v1/imports/{job_id}").json()
    assert (shown["status"], shown["error_records"]) == ("completed_with_errors", 2)
    first = shown["errors"][0]
    assert (first["row"], first["line"], first["field"], first["value"]) == (3, 3, "email", "nobody")
    assert first["reason"] == "invalid_email_format"
    page = client.get(f"/v1/imports/{job_id}/errors", params={"size": 1}).json()
    assert [each["row"] for each in page["errors"]] == [3]
    rest = client.get(f"/v1/imports/{job_id}/errors", params={"size": 1, "after": page["next"]}).json()
    assert [each["row"] for each in rest["errors"]] == [5]
    as_lines = client.get(f"/v1/imports/{job_id}/errors", params={"format": "ndjson"})
    assert as_lines.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(each)["line"] for each in as_lines.text.splitlines()] == [3, 5]
    as_csv = client.get(f"/v1/imports/{job_id}/errors", params={"format": "csv"})
    assert as_csv.text.startswith("line,codes,record,reasons\r\n3,invalid_email_format,")

    def records(outcome: str) -> str:
        return client.get(f"/v1/imports/{job_id}/records/{outcome}").text

    assert records("successful") == HEADER + line(1) + line(3) + line(5)
    assert records("failed") == HEADER + line(2, "nobody") + line(4, "no@one@x")
    assert records("unprocessed") == HEADER
    replay = client.post(f"/v1/imports/{job_id}/replay")
    assert (replay.status_code, replay.json()["replay_of"]) == (202, job_id)
    again = client.post(f"/v1/imports/{job_id}/replay")
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert api.client("eve").post(f"/v1/imports/{job_id}/replay").status_code == 404


def test_an_import_is_cancelled_and_taken_back(api: Api) -> None:
    client = api.client("ada")
    waiting = sent(client, users(1)).json()["job_id"]
    assert client.post(f"/v1/imports/{waiting}/cancel").json()["status"] == "cancelled"
    assert client.post(f"/v1/imports/{waiting}/cancel").status_code == 200
    job_id = sent(client, users(1, 2, 3)).json()["job_id"]
    assert client.post(f"/v1/imports/{job_id}/undo").status_code == 409
    done(api.engine, job_id)
    assert client.post(f"/v1/imports/{job_id}/cancel").json()["type"] == "/problems/wrong-state"
    dry = client.post(f"/v1/imports/{job_id}/undo", params={"dry_run": True}).json()
    assert dry == {"removed": 3, "changed": 0, "referred_to": 0, "dry_run": True}
    assert count(api.engine, "SELECT count(*) FROM users") == 3
    assert client.post(f"/v1/imports/{job_id}/undo").json()["removed"] == 3
    assert count(api.engine, "SELECT count(*) FROM users") == 0
    with transaction(api.engine) as connection:
        done_to = [(each.action, each.details.get("count")) for each in audit.page(connection, audit.Wanted(job_id))]
    assert done_to == [("undo", 3), ("submit", None)]


def test_validating_loads_nothing(api: Api) -> None:
    client = api.client("ada")
    content = (HEADER + line(1) + line(2, "nobody")).encode()
    job_id = sent(client, content, validate_only="true").json()["job_id"]
    done(api.engine, job_id)
    shown = client.get(f"/v1/imports/{job_id}").json()
    assert (shown["mode"], shown["successful_records"], shown["error_records"]) == ("validate", 1, 1)
    assert count(api.engine, "SELECT count(*) FROM users") == 0
    assert client.get(f"/v1/imports/{job_id}/records/successful").text == HEADER + line(1)


def test_the_pages_of_rejects_go_on_to_the_last_one_however_large_they_are(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = api.client("ada")
    content = (HEADER + "".join(line(number, "nobody") for number in range(1, 8))).encode()
    job_id = sent(client, content).json()["job_id"]
    done(api.engine, job_id)
    monkeypatch.setattr(rejects, "PAGE_BYTES", 2 * len(line(1, "nobody")) - 10)
    for size, pages in ((100, 4), (2, 4), (7, 4), (1, 7)):
        found: list[int] = []
        after: dict[str, str] = {}
        asked = 0
        while asked == 0 or after["after"]:
            page = client.get(f"/v1/imports/{job_id}/errors", params={"size": str(size), **after}).json()
            found += [each["line"] for each in page["errors"]]
            after, asked = {"after": page["next"]}, asked + 1
        assert (found, asked) == (list(range(2, 9)), pages), "no page is empty, and none is missing"
    monkeypatch.setenv("BULK_DATABASE_URL", api.settings.database_url)
    shown = CliRunner().invoke(main, ["import", "errors", job_id])
    assert f"7 in all; the next ones: bulk import errors {job_id} --after-line 3" in shown.output
    shown = CliRunner().invoke(main, ["import", "errors", job_id, "--after-line", "7"])
    assert "the next ones" not in shown.output


def test_a_small_import_is_answered_when_it_is_over(api: Api) -> None:
    client = api.client("ada")
    key = {"Idempotency-Key": "once"}
    job_id = sent(client, users(1), key).json()["job_id"]
    waited = sent(client, users(1), {**key, "Prefer": "respond-async, wait=1"})
    assert waited.headers["Preference-Applied"] == "wait=1"
    assert (waited.status_code, waited.json()["status"]) == (200, "pending")
    done(api.engine, job_id)
    over = sent(client, users(1), {**key, "Prefer": "wait=30"})
    assert (over.status_code, over.json()["status"]) == (200, "completed")
    assert "Retry-After" not in over.headers


def test_many_wait_at_once_and_the_others_are_served(api: Api) -> None:
    import concurrent.futures
    import time

    key = {"Idempotency-Key": "once"}
    job_id = sent(api.client("ada"), users(1), key).json()["job_id"]
    text = api.text("ada")

    def wait(_: int) -> str:
        headers = {**bearer(text), **key, "Prefer": "wait=20", "Content-Type": "text/csv"}
        answer = httpx.post(
            f"{api.url}/v1/imports", params={"resource": "users"}, content=users(1), headers=headers, timeout=60
        )
        return str(answer.json()["status"])

    with concurrent.futures.ThreadPoolExecutor(60) as executor:
        waiting = [executor.submit(wait, each) for each in range(60)]
        began = time.monotonic()
        assert api.client("ada").get(f"/v1/imports/{job_id}").status_code == 200
        assert time.monotonic() - began < 10
        done(api.engine, job_id)
        assert {each.result() for each in waiting} == {"completed"}
