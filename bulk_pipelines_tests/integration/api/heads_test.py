"""Heads of requests that do not end: they neither fill the memory nor hold anybody up."""

import contextlib
import itertools
import json
import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from bulk_pipelines.api.serving import connections
from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import sent, users
from bulk_pipelines_tests.scenes.waiting import until

ENOUGH = 4 << 20
CHUNKED = b"POST /v1/imports HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def taken(api: Api, pieces: Iterable[bytes]) -> int:
    """Return how many bytes the server takes before it ends the connection."""
    host, port = api.url.removeprefix("http://").split(":")
    taken = 0
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        try:
            for piece in pieces:
                wire.sendall(piece)
                taken += len(piece)
                if taken > ENOUGH:
                    return taken
        except OSError:
            return taken
    return taken


@pytest.mark.parametrize(
    ("beginning", "more"),
    [
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 10_000),
        (b"GET /", b"a" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"A:\r\n" * 2_500),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"A:\r\n" * 2_500),
        (CHUNKED + b"1;", b"a" * 10_000),
        (b"", b"\r\n" * 5_000),
    ],
    ids=["header", "address", "headers", "trailers", "extension", "blank lines"],
)
def test_a_head_without_end_is_cut_off(api: Api, beginning: bytes, more: bytes) -> None:
    assert taken(api, itertools.chain([beginning], itertools.repeat(more))) < ENOUGH
    assert httpx.get(f"{api.url}/health", timeout=5).status_code == 200


def test_large_bodies_many_requests_and_large_heads_are_let_through(api: Api) -> None:
    client, content = api.client("ada"), users(*range(20_000))
    for body in (content, (content[each : each + 300_000] for each in range(0, len(content), 300_000))):
        assert sent(client, body).status_code == 202
    for _ in range(100):
        assert client.get("/health", headers={"X": "a" * 4_000}).status_code == 200
    assert client.get("/health", headers={"X": "a" * 60_000}).status_code == 200


@pytest.mark.parametrize("beginning", [b"", b"GET /heal", b"\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /he"])
def test_a_head_that_comes_too_slowly_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    """Also one that begins behind another request on the same connection; each byte would put off any other limit."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        wire.sendall(beginning)
        wire.settimeout(0.1)
        ended = False
        deadline = time.monotonic() + 60
        while not ended and time.monotonic() < deadline:
            try:
                ended = wire.recv(1 << 16) == b""
            except TimeoutError:
                with contextlib.suppress(OSError):
                    wire.sendall(b"a" if beginning.strip() else beginning)
            except ConnectionError:
                ended = True
        assert ended


def test_a_request_that_takes_longer_than_its_head_may_is_answered(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    client = api.client("ada")
    with ThreadPoolExecutor(1) as executor, transaction(api.engine) as connection:
        connection.execute("LOCK TABLE job")
        waiting = executor.submit(client.get, "/v1/imports")
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 1.5, "it takes longer", 60)
        connection.execute("COMMIT")
        assert waiting.result().status_code == 200


def test_what_is_no_http_is_answered_as_a_problem(api: Api) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n")
        answer = b"".join(iter(lambda: wire.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["type"] == "/problems/invalid-input"
