"""HEAD of a real server: what GET would say, without saying it. access_test.py asks all endpoints."""

import socket
import time

import pytest

from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.api_imports import count, done, sent, users
from bulk_pipelines_tests.scenes.waiting import until

COPYING = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'copy%' AND state <> 'idle'"


def test_lists_and_jobs(api: Api) -> None:
    client = api.client("ada")
    job = sent(client, users(1)).json()["job_id"]
    for path in ("/v1/imports", f"/v1/imports/{job}", "/openapi.json", "/docs", "/metrics", "/console/login"):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
        if path != "/metrics":
            assert head.headers["Content-Length"] == str(len(got.content))
    assert client.head("/v1/imports/J20200101_000001").status_code == 404
    assert client.head("/v1/imports", params={"size": 0}).status_code == 400
    assert client.head("/jobs").status_code == 405
    assert client.head("/").status_code == 307


def test_a_stream_of_rows_is_not_made(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    client = api.client("ada")
    done(api.engine, sent(client, users(*range(50_000))).json()["job_id"])
    for _ in range(20):  # more than one owner may have at once
        head = client.head("/v1/exports", params={"resource": "users", "format": "ndjson"})
        assert (head.status_code, head.headers["Content-Type"]) == (200, "application/x-ndjson")
        assert "Content-Length" not in head.headers
    until(lambda: count(api.engine, COPYING) == 0, "no query goes on", 30)
    assert client.head("/v1/exports", params={"resource": "users", "fields": "none"}).status_code == 400
    assert [each for each in caplog.records if each.levelname in ("ERROR", "WARNING")] == []


def test_a_download(api: Api) -> None:
    client = api.client("ada")
    done(api.engine, sent(client, users(1, 2)).json()["job_id"])
    job = asked(client, resource="users").json()["job_id"]
    completed(api.engine, job)
    got, head = client.get(f"/v1/exports/{job}/download"), client.head(f"/v1/exports/{job}/download")
    for name in ("Content-Length", "ETag", "Repr-Digest", "Last-Modified", "Accept-Ranges"):
        assert head.headers[name] == got.headers[name]
    assert head.content == b""


def test_news_are_not_waited_for(api: Api) -> None:
    client = api.client("ada")
    job = sent(client, users(1)).json()["job_id"]
    for path in ("/v1/jobs/events", f"/v1/jobs/{job}/events"):
        head = client.head(path)
        assert (head.status_code, head.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")


def test_the_connection_is_kept(api: Api) -> None:
    """No byte of a body comes between two answers."""
    host, port = api.url.removeprefix("http://").split(":")
    key = f"Authorization: Bearer {api.text('ada')}\r\n"
    asked = f"HEAD /v1/imports HTTP/1.1\r\nHost: x\r\n{key}\r\nHEAD /v1/jobs/events HTTP/1.1\r\nHost: x\r\n{key}\r\n"
    last = f"HEAD /health HTTP/1.1\r\nHost: x\r\n{key}Connection: close\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(f"{asked}{last}".encode())
        answer = b"".join(iter(lambda: wire.recv(1 << 16), b""))
    heads = answer.split(b"\r\n\r\n")
    assert len(heads) == 4
    assert heads[-1] == b""
    assert all(each.startswith(b"HTTP/1.1 200 OK\r\n") for each in heads[:-1])


@pytest.mark.parametrize(
    "header", ["Authorization", "Idempotency-Key", "Content-Type", "Content-Length", "Upload-Complete", "Range"]
)
def test_a_header_that_says_one_thing_is_there_once(api: Api, header: str) -> None:
    """Where it is there twice, a proxy may have gone by the other one."""
    content = users(1)
    good = {
        "Authorization": f"Bearer {api.text('ada')}",
        "Idempotency-Key": "k",
        "Content-Type": "text/csv",
        "Content-Length": str(len(content)),
        "Upload-Complete": "?1",
        "Range": "bytes=0-1",
    }
    fields = [*good.items(), (header.lower(), good[header])]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        asked = f"POST /v1/imports?resource=users HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n"
        wire.sendall(asked.encode() + content)
        answer = b"".join(iter(lambda: wire.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"/problems/invalid-input" in answer
    assert count(api.engine, "SELECT count(*) FROM job") == 0


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip", "identity", "chunked, chunked"])
def test_bodies_come_in_chunks_and_in_no_other_coding(api: Api, coding: str) -> None:
    """What is packed for the way would be taken for the content."""
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        head = f"POST /jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n"
        wire.sendall(head.encode() + b"2\r\n{}\r\n0\r\n\r\n")
        assert wire.recv(1 << 16).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "name", ["filename*0=a; " * 4_000 + "x=y", "filename=" + "(" * 4_000, "filename=" + "(" * 1_900], ids=range(3)
)
def test_a_name_that_is_none_costs_nothing(api: Api, name: str) -> None:
    began = time.process_time()
    answer = sent(api.client("ada"), users(1), {"Content-Disposition": f"attachment; {name}"})
    assert answer.status_code == 202
    assert time.process_time() - began < 0.4


def test_a_length_does_not_go_with_chunks(api: Api) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(
            b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        )
        assert wire.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
