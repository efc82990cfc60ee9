"""Heads of requests that do not end: they neither fill the memory nor hold anybody up."""

import contextlib
import itertools
import json
import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def test_a_head_that_is_too_long_is_answered(api: Api) -> None:
    with httpx.Client(base_url=api.url) as client:
        raw = b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
        header = client.get("/health", headers={"X": "a" * 300_000})
    told = "the request cannot be read: its address and headers have more than 65,536 bytes"
    assert (header.status_code, header.json()["detail"]) == (400, told)
    assert told.encode() in answers(api, raw)


def test_large_bodies_many_requests_and_large_heads_are_let_through(api: Api) -> None:
    client, content = api.client("ada"), users(*range(20_000))
    for body in (content, (content[each : each + 300_000] for each in range(0, len(content), 300_000))):
        assert sent(client, body).status_code == 202
    for _ in range(100):
        assert client.get("/health", headers={"X": "a" * 4_000}).status_code == 200
    assert client.get("/health", headers={"X": "a" * 60_000}).status_code == 200


@pytest.mark.parametrize("beginning", [b"", b"GET /heal", b"\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /he"])
def test_a_head_that_comes_too_slowly_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    """A head that begins behind another request on the same connection is ended, too. Each of its bytes would put off
    any other limit."""
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


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAAAA\r\n"
INPUTS = b'{"inputs": [{"indexKey": "ABC", "effectiveDate": 20240202, "asofindicator": "CLS"}]}'


def answers(api: Api, *pieces: bytes) -> bytes:
    """Return all that is answered to these pieces, sent on one connection until it ends. Each is read by itself."""
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        here = wire.getsockname()[1]
        for piece in pieces:
            wire.sendall(piece)
            until(lambda: not unread(here, int(port)), "the server has read the piece")
        return b"".join(iter(lambda: wire.recv(1 << 16), b""))


def unread(here: int, there: int) -> int:
    """Return how many bytes wait in the kernel, at either end of a connection, that were sent from here and not read
    there."""
    waiting = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        ports = int(local.split(":")[1], 16), int(remote.split(":")[1], 16)
        unsent, received = (int(each, 16) for each in queues.split(":"))
        waiting += {(here, there): unsent, (there, here): received}.get(ports, 0)
    return waiting


def head(line: str, *fields: str, more: bytes = b"") -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", *fields, ""]).encode() + more + b"\r\n"


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_a_body_behind_the_offer_of_another_protocol_is_a_body(api: Api, chunked: bool, apart: bool) -> None:
    """Some clients offer HTTP/2 with their first request. Its body must neither be lost nor be taken for a request."""
    key = f"Authorization: Bearer {api.text('ada')}"
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(INPUTS)}"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(INPUTS), INPUTS) if chunked else INPUTS
    first, last = head("POST /jobs", key, length, more=OFFER), head("GET /health", "Connection: close")
    pieces = (first, body, last) if apart else (first + body + last,)
    found = answers(api, *pieces)
    assert found.count(b"HTTP/1.1 ") == 2, found
    assert found.startswith(b"HTTP/1.1 202 "), found
    assert b'"status":"SUBMITTED"' in found
    assert found.endswith(b'{"status":"ok"}')


def test_a_body_that_looks_like_a_request_is_none(api: Api) -> None:
    inner = head("GET /health")
    outer = head("POST /jobs", f"Content-Length: {len(inner)}", "Connection: keep-alive", more=OFFER)
    assert answers(api, outer, inner, head("GET /health", "Connection: close")).count(b"HTTP/1.1 ") == 2


def test_offers_of_another_protocol_are_passed_over_however_many_there_are(api: Api) -> None:
    offers = head("GET /health", more=OFFER) * 200
    assert answers(api, offers + head("GET /health", "Connection: close")).count(b"HTTP/1.1 200 ") == 201


def test_a_trailer_says_nothing_of_who_asks(api: Api) -> None:
    """A proxy takes fields away from heads, and may let trailers through."""
    body = b"%x\r\n%s\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % (len(INPUTS), INPUTS, api.text("ada").encode())
    begun = head("POST /jobs", "Transfer-Encoding: chunked", "Connection: close")
    assert answers(api, begun + body).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nHost: y\r\n"])
def test_a_request_names_one_host(api: Api, hosts: bytes) -> None:
    assert answers(api, b"GET /health HTTP/1.1\r\n" + hosts + b"\r\n").startswith(b"HTTP/1.1 400 ")
    assert answers(api, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_what_is_no_http_is_answered_as_a_problem(api: Api) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n")
        answer = b"".join(iter(lambda: wire.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["type"] == "/problems/invalid-input"
