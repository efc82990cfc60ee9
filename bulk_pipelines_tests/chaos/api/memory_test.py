"""Large files and slow clients: the memory of the process stays flat, and the others are served."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from sqlalchemy import Engine

from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes.api import Api, bearer, process
from bulk_pipelines_tests.scenes.api_imports import HEADER, landed, line

SIZE = 600 << 20
GROWTH = 120 << 20


def large() -> Iterator[bytes]:
    block = "".join(line(number) for number in range(12_000)).encode()
    yield HEADER.encode()
    for _ in range(SIZE // len(block)):
        yield block


@pytest.mark.long
@pytest.mark.parametrize("form", [False, True], ids=["body", "form"])
def test_a_large_file_is_received_in_constant_memory(
    engine: Engine, database_url: str, tmp_path: Path, form: bool
) -> None:
    text = Api(engine, Settings(home=tmp_path), "").text("ada")

    def parts() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="users.csv"\r\n\r\n'
        yield from large()
        yield b"\r\n--x--\r\n"

    kind = "multipart/form-data; boundary=x" if form else "text/csv"
    with process(database_url, tmp_path) as (running, url):
        seen = psutil.Process(running.pid)
        before = peak = seen.memory_info().rss

        def watched() -> Iterator[bytes]:
            nonlocal peak
            for piece in parts() if form else large():
                peak = max(peak, seen.memory_info().rss)
                yield piece

        headers = {**bearer(text), "Content-Type": kind}
        answer = httpx.post(
            f"{url}/v1/imports", params={"resource": "users"}, content=watched(), headers=headers, timeout=600
        )
        assert answer.status_code == 202, answer.text
        assert peak - before < GROWTH


@pytest.mark.long
def test_many_slow_senders_do_not_keep_the_others_from_being_served(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    text = Api(engine, Settings(home=tmp_path), "").text("ada")
    with process(database_url, tmp_path) as (running, url):
        before = psutil.Process(running.pid).memory_info().rss
        host = url.removeprefix("http://")
        address = ("127.0.0.1", int(host.partition(":")[2]))
        whole = (
            f"POST /v1/imports?resource=users HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/csv\r\n"
            f"Authorization: Bearer {text}\r\nContent-Length: 1000000\r\n\r\nid,"
        )
        slow = [socket.create_connection(address) for _ in range(400)]
        try:
            for number, each in enumerate(slow):
                each.sendall(whole.encode() if number % 2 else whole[:40].encode())
            began = time.monotonic()
            for _ in range(20):
                assert httpx.get(f"{url}/v1/imports", headers=bearer(text), timeout=30).status_code == 200
            assert time.monotonic() - began < 20
            assert psutil.Process(running.pid).memory_info().rss - before < GROWTH
        finally:
            for each in slow:
                each.close()
        sent = httpx.post(
            f"{url}/v1/imports",
            params={"resource": "users"},
            content=b"id,email,name,role\n",
            headers={**bearer(text), "Content-Type": "text/csv"},
            timeout=60,
        )
        assert sent.status_code == 202
        assert len(landed(Api(engine, Settings(home=tmp_path), ""))) <= 1
