"""Exports that are streamed: their formats, what is refused, and clients that are slow or go away."""

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from bulk_pipelines.api import streams
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.serving import connections
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import count
from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, read, stored, watching
from bulk_pipelines_tests.scenes.exports import slow_down
from bulk_pipelines_tests.scenes.waiting import until

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
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'bulk export' AND datname = current_database()"
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
