"""Large files and slow clients: the memory of the process stays flat, and the others are served."""

import os
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
from bulk_pipelines_tests.scenes.api_imports import HEADER, count, landed, line
from bulk_pipelines_tests.scenes.today import one_of
from bulk_pipelines_tests.scenes.waiting import until

SIZE = int(os.environ.get("UPLOAD_BYTES") or 2 << 30)
"""UPLOAD_BYTES=10000000000 sends 10 GB, for which the disk must have room."""
GROWTH = 120 << 20
READERS = 8


def large() -> Iterator[bytes]:
    block = "".join(line(number) for number in range(12_000)).encode()
    yield HEADER.encode()
    for _ in range(SIZE // len(block)):
        yield block


@pytest.mark.long
@pytest.mark.timeout(max(600, SIZE >> 23))
@pytest.mark.parametrize("form", one_of([False, True]))
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
        print(f"{SIZE:,} bytes as a {'form' if form else 'body'}: {peak - before:,} bytes more memory")
        assert peak - before < GROWTH
    (file,) = (tmp_path / "landed").rglob("*-sent")
    assert file.stat().st_size > 0.99 * SIZE
    file.unlink()


@pytest.mark.long
def test_clients_that_read_byte_by_byte_leave_the_memory_flat_and_the_others_served(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    api = Api(engine, Settings(home=tmp_path), "")
    texts = [api.text(owner) for owner in ("ada", "eve")]
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO users (id, email, name, role, active) SELECT gen_random_uuid(), n || '@example.org',"
            " repeat('n', 100), 'reader', true FROM generate_series(1, 200000) AS n"
        )
    with process(database_url, tmp_path) as (running, url):
        seen = psutil.Process(running.pid)
        assert httpx.get(f"{url}/v1/exports?resource=users", headers=bearer(texts[0]), timeout=120).is_success
        before = seen.memory_info().rss
        host, port = url.removeprefix("http://").split(":")
        readers = [socket.socket() for _ in range(READERS)]
        try:
            for number, each in enumerate(readers):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                each.connect((host, int(port)))
                ask = f"GET /v1/exports?resource=users HTTP/1.1\r\nHost: {host}\r\n"
                each.sendall(f"{ask}Authorization: Bearer {texts[number % 2]}\r\n\r\n".encode())
            began = time.monotonic()
            for _ in range(20):
                for each in readers:
                    assert each.recv(1)
                answer = httpx.get(f"{url}/v1/exports", headers=bearer(texts[0]), timeout=30)
                assert answer.status_code == 200
            assert time.monotonic() - began < 30
            assert seen.memory_info().rss - before < GROWTH
        finally:
            for each in readers:
                each.close()
        until(lambda: running_queries(engine) == 0, "nobody reads the rows of those who went away", 60)


def running_queries(engine: Engine) -> int:
    return count(
        engine,
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY %' AND state = 'active'"
        " AND datname = current_database()",
    )


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
