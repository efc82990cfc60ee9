"""Imports over HTTP: every form of request, what is answered, and what is loaded."""

import base64
import gzip
import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from backports.zstd import compress
from click.testing import CliRunner
from sqlalchemy import Engine

from bulk_pipelines.api.imports import requests
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.cli import main
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import audit, quotas
from bulk_pipelines.imports.load import rejects
from bulk_pipelines_tests.scenes import people_files
from bulk_pipelines_tests.scenes.api import Api, bearer, serving_here
from bulk_pipelines_tests.scenes.api_imports import (
    HEADER,
    count,
    done,
    landed,
    line,
    nothing_is_left,
    sent,
    uploads_left,
    users,
)
from bulk_pipelines_tests.scenes.people_files import workbook
from bulk_pipelines_tests.scenes.waiting import until


def test_a_body_is_landed_once_and_imported(api: Api) -> None:
    client = api.client("ada")
    answer = sent(client, users(1, 2, 3), {"X-Request-ID": "mine-1"})
    assert answer.status_code == 202, answer.text
    said = answer.json()
    assert answer.headers["Location"] == f"/v1/imports/{said['job_id']}"
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.headers["RateLimit-Policy"].startswith('"jobs";q=1000')
    assert (said["status"], said["resource_type"], said["mode"], said["owner"]) == ("pending", "users", "insert", "ada")
    assert (said["total_records"], said["total_is_estimate"], said["errors"]) == (None, True, [])
    assert said["request_id"] == "mine-1"
    job = done(api.engine, said["job_id"])
    assert landed(api) == [f"{job.job_key}/000001-sent"], "no second copy is made"
    assert (job.address, job.file_id) == ("127.0.0.1", said["file_id"])
    after = client.get(answer.headers["Location"]).json()
    assert (after["status"], after["total_records"], after["successful_records"]) == ("completed", 3, 3)
    assert (after["total_is_estimate"], after["error_records"], after["processed_records"]) == (False, 0, 3)
    assert count(api.engine, "SELECT count(*) FROM users") == 3


@pytest.mark.parametrize("behind", [False, True], ids=["fields first", "file first"])
def test_a_form_is_imported_with_its_fields_on_either_side_of_the_file(api: Api, behind: bool) -> None:
    fields: list[Any] = [("resource_type", (None, "users")), ("mode", (None, "upsert")), ("priority", (None, "7"))]
    file: list[Any] = [("file", ("C:\\data\\users\u202e.csv", users(1, 2), "text/csv"))]
    answer = api.client("ada").post("/v1/imports", files=file + fields if behind else fields + file)
    assert answer.status_code == 202, answer.text
    job = done(api.engine, answer.json()["job_id"])
    assert (job.status, job.params["mode"]) == ("COMPLETED", "upsert")
    assert count(api.engine, "SELECT priority FROM job") == 7
    assert job.result is not None
    assert job.result["files"][0]["source"] == "users�.csv", "a name is shown, and never used"


def test_a_workbook_is_sent_and_only_admins_give_expressions(api: Api) -> None:
    book = workbook([dict(user) | {"name": None} for user in people_files.users(3)], engine="openpyxl")
    fields: list[Any] = [("resource", (None, "users")), ("expressions", (None, "name=split_part(email, '@', 1)"))]
    file: list[Any] = [("file", ("users.xlsx", book, "application/octet-stream"))]
    answer = api.client("ada").post("/v1/imports", files=file + fields)
    assert (answer.status_code, "only an admin" in answer.text) == (403, True), answer.text
    answer = api.client("root", Scope.ADMIN).post("/v1/imports", files=file + fields)
    assert answer.status_code == 202, answer.text
    job = done(api.engine, answer.json()["job_id"])
    assert job.status == "COMPLETED", job.last_error
    assert count(api.engine, "SELECT count(*) FROM users WHERE name LIKE 'user_'") == 3


@pytest.mark.parametrize("packed", [gzip.compress, compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("told", [True, False], ids=["told", "recognised"])
def test_a_compressed_body_is_unpacked(api: Api, packed: Any, told: bool) -> None:
    coding = {"Content-Encoding": "gzip" if packed is gzip.compress else "zstd"} if told else {}
    answer = sent(api.client("ada"), packed(users(1, 2)), coding)
    assert answer.status_code == 202, answer.text
    assert done(api.engine, answer.json()["job_id"]).status == "COMPLETED"


@pytest.mark.parametrize(
    ("headers", "content", "status", "name"),
    [
        ({"Content-Encoding": "gzip"}, users(1), 400, "bad-compression"),
        ({"Content-Encoding": "gzip"}, gzip.compress(users(1))[:-9], 400, "bad-compression"),
        ({"Content-Encoding": "br"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Encoding": "gzip, zstd"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": "image/png"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": ""}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": "multipart/form-data"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, users(1), 400, "invalid-input"),
        ({"Content-Digest": "sha-256=:AAAA:"}, users(1), 400, "invalid-input"),
        ({"Content-Digest": "nonsense"}, users(1), 400, "invalid-input"),
        ({"Idempotency-Key": "x" * 256}, users(1), 400, "invalid-input"),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_taken_is_refused_and_leaves_nothing(
    api: Api, headers: dict[str, str], content: bytes, status: int, name: str
) -> None:
    answer = sent(api.client("ada"), content, headers)
    assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{name}"), answer.text
    nothing_is_left(api)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"resource": "planets"}, "resource"),
        ({"resource": ""}, "resource"),
        ({"resource_type": "articles"}, "resource_type"),
        ({"mode": "replace"}, "mode"),
        ({"format": "xml"}, "format"),
        ({"on_error": "maybe"}, "on_error"),
        ({"on_error": "9" * 5_000}, "on_error"),
        ({"on_error": "9" * 5_000 + "%"}, "on_error"),
        ({"priority": "9" * 5_000}, "priority"),
        ({"validate_only": "perhaps"}, "validate_only"),
        ({"validate_only": "true", "mode": "upsert"}, "validate_only"),
        ({"match_on": "email"}, "match_on"),
        ({"priority": "101"}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"compression": "gzip"}, "compression"),
        ({"map": "[" * 5_000}, "map"),
        ({"ignore": "[" * 5_000}, "ignore"),
        ({"fields": '{"a":' * 5_000}, "fields"),
    ],
)
def test_an_option_that_is_wrong_is_named(api: Api, params: dict[str, str], field: str) -> None:
    answer = sent(api.client("ada"), users(1), {}, **params)
    assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text
    nothing_is_left(api)


def test_digests_are_checked(api: Api) -> None:
    client, content = api.client("ada"), users(1, 2)

    def digest(algorithm: str, of: bytes) -> str:
        return f"{algorithm}=:{base64.b64encode(hashlib.new(algorithm.replace('-', ''), of).digest()).decode()}:"

    for header in ("Content-Digest", "Repr-Digest"):
        wrong = sent(client, content, {header: digest("sha-256", b"other")})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "/problems/digest-mismatch")
        nothing_is_left(api)
    right = f"md5=:AAAA:, {digest('sha-256', content)}, {digest('sha-512', content)}"
    assert sent(client, content, {"Content-Digest": right}).status_code == 202
    packed = gzip.compress(content)
    good = {"Content-Encoding": "gzip", "Repr-Digest": digest("sha-256", packed)}
    assert sent(client, packed, good).status_code == 202


def test_a_key_stands_for_one_request_of_one_owner(api: Api) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": '"first"'}
    first = sent(client, users(1, 2), key)
    assert (first.status_code, first.headers.get("Idempotent-Replayed")) == (202, None)
    again = sent(client, users(1, 2), key)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.json()["job_id"] == first.json()["job_id"]
    assert again.json()["idempotency_key"] == "first"
    for content, params in ((users(1, 3), {}), (users(1, 2), {"mode": "upsert"})):
        other = sent(client, content, key, **params)
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
        assert other.json()["job_id"] == first.json()["job_id"]
    form = client.post("/v1/imports", files={"file": users(1, 2)}, data={"resource": "users"}, headers=key)
    assert form.status_code == 200, "the same file in a form is the same request"
    hers = sent(api.client("eve"), users(9), key)
    assert hers.status_code == 202, "another owner's key is another key"
    assert len(landed(api)) == 2
    assert uploads_left(api) == 0


def test_while_the_first_arrives_the_key_is_in_flight_and_the_key_of_a_dead_process_is_free(api: Api) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": "slow"}
    answers: list[httpx.Response] = []

    def slowly() -> Iterator[bytes]:
        yield HEADER.encode() + b"x" * (2 << 20)
        until(lambda: uploads_left(api) == 1, "the first arrives")
        answers.append(sent(api.client("ada"), users(1), key))
        yield b"\n" + line(1).encode()

    first = sent(client, slowly(), key)
    assert first.status_code == 202, first.text
    assert (answers[0].status_code, answers[0].json()["type"]) == (409, "/problems/in-flight")
    assert int(answers[0].headers["Retry-After"]) > 0
    with transaction(api.engine) as connection:
        connection.execute(
            "INSERT INTO upload (upload_id, owner, job_key, idempotency_key, request, resumable, expires_at)"
            " VALUES ('Udead', 'ada', 'J20260101_999999', 'died', '{}', false, now() - interval '1 second')"
        )
    assert sent(client, users(5), {"Idempotency-Key": "died"}).status_code == 202


def test_an_address_is_imported_and_nobody_reads_what_they_may_not(engine: Engine, tmp_path: Path) -> None:
    allowed, secret = tmp_path / "incoming", tmp_path / "secret.csv"
    allowed.mkdir()
    secret.write_bytes(users(1))
    (allowed / "users.csv").write_bytes(users(1, 2))
    (allowed / "link.csv").symlink_to(secret)
    with serving_here(engine, tmp_path / "home", api_folders=str(allowed), api_sources="s3://open/in") as api:

        def ask(owner: str, scope: Scope, url: Any) -> httpx.Response:
            with api.client(owner, scope) as client:
                return client.post("/v1/imports", json={"resource": "users", "url": url})

        assert ask("ada", Scope.WRITE, "https://example.org/users.csv").status_code == 202
        assert ask("ada", Scope.WRITE, "s3://open/in/users.csv").status_code == 202
        for url in (
            str(allowed / "users.csv"),
            f"file://{allowed}/users.csv",
            "s3://open/inner/users.csv",
            "s3://open/in/../x.csv",
            "s3://closed/in/users.csv",
            "ftp://inside/users.csv",
            "sftp://inside/users.csv",
            ["https://example.org/users.csv", "s3://closed/users.csv"],
            "/etc/passwd",
            "users.csv",
        ):
            answer = ask("ada", Scope.WRITE, url)
            assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden"), url
        assert ask("root", Scope.ADMIN, "s3://closed/users.csv").status_code == 202
        good = ask("root", Scope.ADMIN, str(allowed / "users.csv"))
        assert good.status_code == 202, good.text
        for url in (str(secret), f"{allowed}/../secret.csv", str(allowed), "/etc/passwd", "users.csv"):
            assert ask("root", Scope.ADMIN, url).status_code == 403, url
        assert ask("root", Scope.ADMIN, ["https://a.example/x", str(allowed / "users.csv")]).status_code == 400
        for body in (b"", b"[]", b"{", b'{"resource": "users"}', b'{"resource": "users", "url": "x", "shell": 1}'):
            with api.client("ada") as client:
                wrong = client.post("/v1/imports", content=body, headers={"Content-Type": "application/json"})
                assert (wrong.status_code, wrong.json()["type"]) == (400, "/problems/invalid-input"), body
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("BULK_HOME", str(tmp_path / "home"))
            assert done(engine, good.json()["job_id"]).status == "COMPLETED"
            through = ask("root", Scope.ADMIN, str(allowed / "link.csv"))
            assert through.status_code == 202
            with pytest.raises(Exception, match="leads out|link"):
                done(engine, through.json()["job_id"])


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


def test_limits_of_an_owner_are_told_and_kept(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path, owner_jobs=2, owner_bytes=1_000) as api:
        client = api.client("ada")
        first = sent(client, users(1))
        assert first.headers["RateLimit"].startswith('"jobs";r=1, ')
        assert sent(client, users(2), {"Idempotency-Key": "k"}).status_code == 202
        third = sent(client, users(3))
        assert (third.status_code, third.json()["type"]) == (429, "/problems/over-quota")
        assert int(third.headers["Retry-After"]) > 0
        assert sent(client, users(2), {"Idempotency-Key": "k"}).status_code == 200, "a repeated request takes no room"
        by_address = client.post("/v1/imports", json={"resource": "users", "url": "https://example.org/x.csv"})
        assert by_address.status_code == 429
        assert uploads_left(api) == 0
        assert len(landed(api)) == 2
        assert sent(api.client("eve"), users(*range(100))).status_code == 429


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


def test_one_request_names_so_many_files_at_most(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client = api.client("ada")
    urls = [f"https://example.org/{number}.csv" for number in range(requests.MOST_FILES + 1)]
    answer = client.post("/v1/imports", json={"resource": "users", "url": urls})
    assert (answer.status_code, answer.json()["field"]) == (400, "url"), answer.text
    assert "10,000" in answer.json()["detail"]
    monkeypatch.setattr(requests, "MOST_FILES", 3)
    assert client.post("/v1/imports", json={"resource": "users", "url": urls[:3]}).status_code == 202
    assert client.post("/v1/imports", json={"resource": "users", "url": urls[:4]}).status_code == 400


def test_submissions_that_wait_for_their_owner_give_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one submission of an owner does not end, the others do not hold the connections that everybody needs."""
    monkeypatch.setattr(quotas, "PATIENT_SECONDS", 1)
    client, eve = api.client("ada"), api.client("eve")
    place = sent(client, b"", {"Upload-Complete": "?0"}).headers["Location"]
    with transaction(api.engine) as connection:
        connection.execute(queries.text("quotas", "one_at_a_time"), {"owner": "ada"})
        partial = {"Content-Type": "application/partial-upload", "Upload-Complete": "?0", "Upload-Offset": "0"}
        for answer in (
            client.post("/v1/imports", json={"resource": "users", "url": "https://example.org/x.csv"}),
            sent(client, users(1)),
            client.patch(place, content=b"id,", headers=partial),
        ):
            assert (answer.status_code, answer.json()["type"]) == (429, "/problems/over-quota"), answer.text
            assert int(answer.headers["Retry-After"]) > 0
        assert len(landed(api)) == 0
        assert sent(eve, users(1)).status_code == 202
    assert sent(client, users(1)).status_code == 202


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
