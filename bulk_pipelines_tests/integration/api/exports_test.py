"""Exports over HTTP: streamed, or as jobs whose files are fetched."""

import gzip
import hashlib
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api import streams
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.serving import connections
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.api_imports import count
from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, names_in, read, stored, watching
from bulk_pipelines_tests.scenes.exports import slow_down
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import Place

PATIENCE = 60.0
MANY = 300_000


@pytest.mark.parametrize("format_", Format)
def test_rows_are_streamed_in_each_format(api: Api, format_: Format) -> None:
    insert_users(api.engine, 50)
    params = {"resource": "users", "where": ["role=admin"], "fields": "id,email,role", "order": "email"}
    answer = api.client("ada", Scope.READ).get("/v1/exports", params={**params, "format": format_.value})
    assert answer.status_code == 200, answer.text
    request = ExportRequest.parse({**params, "format": format_.value})
    rows = read(api.engine, request, answer.content)
    admins = [row for row in stored(api.engine, request) if row[2] == "admin"]
    assert rows == sorted(admins, key=lambda row: str(row[1]))
    assert len(rows) > 3
    assert answer.headers["content-disposition"] == f'attachment; filename="users.{format_.ending}"'
    assert answer.headers["transfer-encoding"] == "chunked"
    assert count(api.engine, "SELECT count(*) FROM job") == 0


def test_the_client_says_which_format_it_likes(api: Api) -> None:
    insert_users(api.engine, 3)
    client = api.client("ada")
    for accept, kind in (
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/csv; charset=utf-8"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("application/jsonl;q=0.9, text/csv;q=0.1", "application/x-ndjson"),
        ("application/*", "application/x-ndjson"),
        ("*/*, application/vnd.apache.arrow.stream;q=0.5, text/*;q=0", "application/x-ndjson"),
        ("application/vnd.apache.parquet", "application/vnd.apache.parquet"),
    ):
        answer = client.get("/v1/exports", params={"resource": "users"}, headers={"Accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind), accept
        assert answer.headers["vary"] == "Accept"
    for accept in ("image/png", "text/csv;q=0", "text/csv;q=x", "text/csv;q=nan", "*/*;q=inf", ",;,"):
        answer = client.get("/v1/exports", params={"resource": "users"}, headers={"Accept": accept})
        assert (answer.status_code, answer.json()["type"]) == (406, "/problems/not-acceptable"), accept
    packed = client.get("/v1/exports", params={"resource": "users", "compression": "gzip", "format": "json"})
    assert packed.headers["content-type"] == "application/gzip"
    assert len(json.loads(gzip.decompress(packed.content))) == 3


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"resource": "nobody"}, "resource"),
        ({"resource": ""}, "resource"),
        ({"resource": "users", "format": "pdf"}, "format"),
        ({"resource": "users", "fields": "password"}, "password"),
        ({"resource": "users", "where": "role"}, "where"),
        ({"resource": "users", "where": ""}, "where"),
        ({"resource": "users", "filters": "{"}, "filters"),
        ({"resource": "users", "filters": "[1]"}, "filters"),
        ({"resource": "users", "filters": '{"role": {"a": 1}}'}, "role"),
        ({"resource": "users", "filters": '{"role": []}'}, "role"),
        ({"resource": "users", "filters": "[" * 20_000}, "filters"),
        ({"resource": "users", "format": "xlsx", "compression": "gzip"}, "compression"),
        ({"resource": "users", "escape_formulas": "maybe"}, "escape_formulas"),
    ],
)
def test_what_cannot_be_exported_is_refused_by_name(api: Api, params: dict[str, str], field: str) -> None:
    answer = api.client("ada").get("/v1/exports", params=params)
    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text


def test_filters_are_an_object_as_well(api: Api) -> None:
    insert_users(api.engine, 60)
    client = api.client("ada")
    found = [
        client.get("/v1/exports", params={"resource": "users", "fields": "id", "order": "id", **params}).text
        for params in (
            {"filters": json.dumps({"role": ["admin", "author"], "active": True})},
            {"where": ["role in admin,author", "active=true"]},
        )
    ]
    assert found[0] == found[1]
    assert 1 < found[0].count("\n") < 61


@contextmanager
def streaming(api: Api, owner: str = "ada", **params: str) -> Iterator[httpx.Response]:
    with api.client(owner).stream("GET", "/v1/exports", params={"resource": "users", **params}) as answer:
        assert answer.status_code == 200
        yield answer


def head(api: Api, version: str) -> bytes:
    text = api.text("ada")
    return f"GET /v1/exports?resource=users HTTP/{version}\r\nHost: x\r\nAuthorization: Bearer {text}\r\n\r\n".encode()


def test_a_client_that_goes_away_ends_the_query(api: Api) -> None:
    insert_users(api.engine, MANY)
    with watching(api.engine) as connection:
        for format_ in ("csv", "arrow"):
            with streaming(api, format=format_) as answer:
                pieces = answer.iter_bytes()  # the answer is closed with the last reference to this
                assert next(pieces)
                until(lambda: exporting(connection) > 0, "the query runs", PATIENCE)
            until(lambda: exporting(connection) == 0, "no query runs any more", PATIENCE)
        assert api.client("ada").get("/health").status_code == 200


def test_a_client_that_goes_away_before_the_first_row_ends_the_query(api: Api) -> None:
    insert_users(api.engine, 10)
    with transaction(api.engine) as connection:
        slow_down(connection, seconds=60)
    host, port = api.url.removeprefix("http://").split(":")
    with watching(api.engine) as connection:
        with socket.create_connection((host, int(port))) as wire:
            wire.sendall(head(api, "1.1"))
            until(lambda: exporting(connection, "AND state = 'active'") > 0, "the query runs", PATIENCE)
        until(lambda: exporting(connection) == 0, "no query runs any more", PATIENCE)


def test_a_slow_client_is_not_read_ahead_for(api: Api) -> None:
    """PostgreSQL waits for its reader, and others are served meanwhile."""
    insert_users(api.engine, MANY)
    with watching(api.engine) as connection, streaming(api) as answer:
        pieces = answer.iter_bytes()
        taken = len(next(pieces))
        until(lambda: exporting(connection, "AND wait_event = 'ClientWrite'") > 0, "PostgreSQL waits", PATIENCE)
        assert api.client("ada").get("/v1/imports").status_code == 200
        assert taken + sum(map(len, pieces)) > 30 << 20
    assert count(api.engine, "SELECT count(*) FROM users") == MANY


def test_an_error_in_the_middle_breaks_the_answer_off(api: Api) -> None:
    insert_users(api.engine, MANY)
    for version in ("1.1", "1.0"):
        with watching(api.engine) as connection:
            host, port = api.url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as wire:
                wire.sendall(head(api, version))
                received = wire.recv(1 << 16)
                until(lambda: exporting(connection, "AND wait_event = 'ClientWrite'") > 0, "it waits", PATIENCE)
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bulk export'"
                )
                while piece := wire.recv(1 << 20):
                    received += piece
        assert received.startswith(b"HTTP/1.1 200")
        assert b"transfer-encoding: chunked" in received[:2_000].lower()
        assert not received.endswith(b"0\r\n\r\n"), "the answer would be taken for whole"


def test_an_error_before_the_first_row_is_a_problem(api: Api) -> None:
    with transaction(api.engine) as connection:
        connection.execute("ALTER TABLE users RENAME TO lost")
    answer = api.client("ada").get("/v1/exports", params={"resource": "users"})
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/unavailable")


def test_one_owner_has_some_streams_at_once_and_everybody_not_too_many(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "OF_OWNER", 1)
    monkeypatch.setattr(streams, "AT_ONCE", 2)
    insert_users(api.engine, MANY)
    params = {"resource": "users"}
    with streaming(api), streaming(api, "bob"):
        refused = api.client("ada").get("/v1/exports", params=params)
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/over-quota")
        full = api.client("eve").get("/v1/exports", params=params)
        assert (full.status_code, full.json()["type"]) == (503, "/problems/unavailable")
        assert int(full.headers["retry-after"]) > 0

    def served() -> bool:
        return api.client("ada").get("/v1/exports", params={**params, "where": "name=x"}).status_code == 200

    until(served, "there is room again", PATIENCE)


def test_a_client_that_does_not_read_is_let_go(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READING_SECONDS", 0.5)
    insert_users(api.engine, MANY)
    with watching(api.engine) as connection, streaming(api) as answer:
        until(lambda: exporting(connection) > 0, "the query runs", PATIENCE)
        until(lambda: exporting(connection) == 0, "no query runs any more", PATIENCE)
        with pytest.raises(httpx.TransportError):
            list(answer.iter_bytes())


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


def test_a_part_of_the_file_and_conditions(api: Api) -> None:
    insert_users(api.engine, 200)
    client = api.client("ada")
    key = asked(client, resource="users").json()["job_id"]
    completed(api.engine, key)
    url = f"/v1/exports/{key}/download"
    whole = client.get(url)
    tag, size = whole.headers["etag"], len(whole.content)
    looked = client.head(url)
    assert (looked.status_code, looked.content) == (200, b"")
    for name in ("etag", "content-length", "repr-digest", "last-modified", "accept-ranges", "content-type"):
        assert looked.headers[name] == whole.headers[name]
    assert int(looked.headers["content-length"]) == size
    for asked_for, start, stop in (
        ("bytes=0-0", 0, 1),
        ("bytes=10-99", 10, 100),
        ("bytes=100-", 100, size),
        ("bytes=-7", size - 7, size),
        (f"bytes={size - 5}-{size + 1_000}", size - 5, size),
        (f"bytes=1-{10**17}", 1, size),
    ):
        part = client.get(url, headers={"Range": asked_for, "If-Range": tag})
        assert (part.status_code, part.content) == (206, whole.content[start:stop]), asked_for
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
        assert part.headers["etag"] == tag
    for headers in (
        {"Range": "bytes=0-1,5-6"},
        {"Range": "lines=1-2"},
        {"Range": "bytes=9-2"},
        {"Range": "bytes=-"},
        {"Range": "bytes=1-2", "If-Range": '"other"'},
        {"Range": "bytes=1-2", "If-Range": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"Range": f"bytes=-{size * 2}"},
    ):
        found = client.get(url, headers=headers)
        assert (found.status_code, found.content) == (200, whole.content), headers
    for beyond in (f"bytes={size}-", "bytes=-0", f"bytes={10**17}-"):
        refused = client.get(url, headers={"Range": beyond})
        assert (refused.status_code, refused.headers["content-range"]) == (416, f"bytes */{size}")
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        assert client.get(url, headers={"If-None-Match": known}).status_code == 304
    assert client.get(url, headers={"If-None-Match": '"x"'}).status_code == 200
    for path in (api.settings.home / "exports").iterdir():
        path.unlink()
    gone = client.get(url)
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/gone")


@pytest.mark.long
def test_a_file_that_is_replaced_while_it_is_fetched_is_not_taken_for_whole(api: Api) -> None:
    insert_users(api.engine, MANY)
    client = api.client("ada")
    key = asked(client, resource="users").json()["job_id"]
    completed(api.engine, key)
    with client.stream("GET", f"/v1/exports/{key}/download") as answer:
        size, received = int(answer.headers["content-length"]), 0
        assert size > 16 << 20, "this must be more than the buffers between the two hold"
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete|without sending complete"):
            for piece in answer.iter_raw():
                if not received:
                    for path in (api.settings.home / "exports").iterdir():
                        path.unlink()
                received += len(piece)
    assert 0 < received < size


def test_a_file_on_s3_is_fetched_from_there(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_bucket: Place
) -> None:
    insert_users(engine, 500)
    s3 = s3_bucket.access.s3
    place = {
        "exports_url": f"{s3_bucket.url}/exports",
        "s3_endpoint": s3.endpoint,
        "s3_access_key_id": s3.access_key_id,
        "s3_secret_access_key": s3.secret_access_key,
    }
    for name, value in place.items():
        monkeypatch.setenv(f"BULK_{name.upper()}", value)
    with serving_here(engine, tmp_path, **place) as api:
        client = api.client("ada")
        key = asked(client, resource="users").json()["job_id"]
        job = completed(engine, key)
        assert job.result is not None
        told = client.get(f"/v1/exports/{key}/download")
        assert (told.status_code, told.content) == (307, b"")
        assert "X-Amz-Signature" in told.headers["location"]
        fetched = httpx.get(told.headers["location"])
        assert hashlib.sha256(fetched.content).hexdigest() == job.result["sha256"]
        looked = client.head(f"/v1/exports/{key}/download")
        assert (looked.status_code, int(looked.headers["content-length"])) == (200, job.result["bytes"])
        tag = {"If-None-Match": looked.headers["etag"]}
        assert client.get(f"/v1/exports/{key}/download", headers=tag).status_code == 304
    with serving_here(engine, tmp_path, api_redirects=False, **place) as api:
        client = api.client("ada")
        passed_on = client.get(f"/v1/exports/{key}/download")
        assert (passed_on.status_code, passed_on.content) == (200, fetched.content)
        part = client.get(f"/v1/exports/{key}/download", headers={"Range": "bytes=7-70"})
        assert (part.status_code, part.content) == (206, fetched.content[7:71])


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
