"""Heads of requests that do not end: they neither fill the memory nor hold anybody up."""

import itertools
import socket
from collections.abc import Iterable

import httpx
import pytest

from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import sent, users

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
