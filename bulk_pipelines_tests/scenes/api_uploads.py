"""Resumable uploads over HTTP, and requests whose bodies are sent by hand."""

import socket
from typing import Any

import httpx

from bulk_pipelines_tests.scenes.api import bearer
from bulk_pipelines_tests.scenes.api_imports import (
    sent,
    users,
)

CONTENT = users(*range(1, 2_001))
PATCHED = {"Content-Type": "application/partial-upload", "Upload-Complete": "?1", "Upload-Offset": "0"}


def begun(client: httpx.Client, content: bytes = b"", complete: bool = False, **headers: str) -> httpx.Response:
    answer = sent(client, content, {"Upload-Complete": "?1" if complete else "?0", **headers})
    assert answer.status_code in (201, 202), answer.text
    return answer


def append(
    client: httpx.Client, place: str, content: Any, offset: int, complete: bool, **headers: str
) -> httpx.Response:
    said = {
        "Content-Type": "application/partial-upload",
        "Upload-Complete": "?1" if complete else "?0",
        "Upload-Offset": str(offset),
        **headers,
    }
    return client.patch(place, content=content, headers=said)


def offset(client: httpx.Client, place: str) -> int:
    answer = client.head(place)
    assert answer.status_code == 204
    assert answer.headers["Cache-Control"] == "no-store"
    assert "max-size=" in answer.headers["Upload-Limit"]
    return int(answer.headers["Upload-Offset"])


class Wire:
    """A request whose body is sent by hand, so that it can break off."""

    def __init__(self, url: str, text: str, method: str, path: str, length: int, **headers: str) -> None:
        host = url.removeprefix("http://")
        self.socket = socket.create_connection(host.split(":"), timeout=30)  # type: ignore[arg-type]
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {length}"]
        said = {"Content-Type": "text/csv", **bearer(text), **headers}
        lines += [f"{name}: {value}" for name, value in said.items()]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())

    def send(self, content: bytes) -> None:
        self.socket.sendall(content)

    def answer(self) -> bytes:
        return self.socket.recv(100_000)

    def close(self) -> None:
        self.socket.close()
