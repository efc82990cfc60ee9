"""`bulk api` as a process: where it listens, what it says, and how it stops."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api import readiness
from bulk_pipelines.api.problems import PROBLEMS
from bulk_pipelines.api.serving import serving
from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings import CHECKOUT, Settings
from bulk_pipelines_tests.scenes.api import Api, bearer, lives, serving_here
from bulk_pipelines_tests.scenes.api_imports import count
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import free_port


@contextmanager
def started(url: str, home: Path, port: int, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    variables = {"BULK_DATABASE_URL": url, "BULK_HOME": str(home), "BULK_API_PORT": str(port), **settings}
    running = subprocess.Popen(
        [sys.executable, "-m", "bulk_pipelines.cli", "api"],
        env=os.environ | variables,
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until(lambda: lives(running, f"http://127.0.0.1:{port}"), "the API serves", 60)
        yield running
    finally:
        running.kill()
        running.wait()


def test_without_keys_it_listens_on_loopback_only_and_says_so(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    with started(database_url, tmp_path, port, BULK_API_HOST="0.0.0.0") as running:
        for family, where, *_ in ((each[0], each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), port)):
            if not str(where).startswith("127.") and where != "::1":
                with pytest.raises(OSError), socket.socket(family) as probe:  # noqa: PT011
                    probe.connect((where, port))
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=30)
    assert said.startswith("There are no API keys, so the API listens on 127.0.0.1 only, and not on 0.0.0.0: bulk keys")
    assert f"http://127.0.0.1:{port}/docs" in said


def test_with_a_key_it_listens_where_it_is_told(engine: Engine, tmp_path: Path) -> None:
    chosen = Settings(api_host="0.0.0.0")
    said: list[str] = []
    assert serving.host_of(chosen, engine, said.append) == "127.0.0.1"
    assert len(said) == 1
    Api(engine, chosen, "").key("ada")
    assert serving.host_of(chosen, engine, said.append) == "0.0.0.0"
    assert len(said) == 1


def test_a_taken_port_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInput, match="BULK_API_PORT: 127.0.0.1:.* cannot be used"):
            serving.listening("127.0.0.1", taken.getsockname()[1])


def test_stopped_it_gives_requests_under_way_five_seconds(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    with started(database_url, tmp_path, port) as running, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET /api/audit HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=5 + 10) is not None


def test_errors_are_problems_and_every_answer_has_its_identity(api: Api) -> None:
    client = api.client("ada")
    for answer, status, name in (
        (client.get("/nowhere"), 404, "no-such-endpoint"),
        (client.delete("/health"), 405, "method-not-allowed"),
        (client.get("/api/audit", params={"size": 0}), 400, "invalid-input"),
        (client.get("/api/audit", params={"after": "!"}), 400, "invalid-input"),
        (client.get("/api/audit", params={"job": "a\0b"}), 400, "invalid-input"),
        (client.get("/problems/none"), 404, "not-found"),
    ):
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        said = answer.json()
        assert said["type"] == f"/problems/{name}"
        assert said["title"] == PROBLEMS[name].title
        assert said["detail"]
        assert said["remedy"]
        assert said["request_id"] == answer.headers["x-request-id"]
        assert answer.headers["traceparent"].startswith("00-")
    assert client.get("/api/audit", params={"size": 0}).json()["field"] == "size"
    mine = client.get("/health", headers={"X-Request-ID": "mine-1"})
    assert mine.headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/imports", {"GET", "HEAD", "POST"}),
        ("/v1/exports/J20260110_000777/download", {"GET", "HEAD"}),
        ("/v1/uploads/up_1", {"HEAD", "PATCH", "DELETE"}),
        ("/reconcile/people", {"GET", "HEAD", "POST"}),
        ("/health", {"GET", "HEAD"}),
        ("/jobs", {"POST"}),
    ],
)
def test_a_refused_method_is_answered_with_all_that_there_are(api: Api, path: str, methods: set[str]) -> None:
    answer = api.client("ada").options(path)
    assert (answer.status_code, set(answer.headers["Allow"].split(", "))) == (405, methods)


def test_a_fault_of_ours_gives_nothing_away_and_still_has_its_identity(api: Api) -> None:
    text = api.text("ada")
    with api.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE audit RENAME TO lost")
    answer = httpx.get(f"{api.url}/api/audit", headers=bearer(text))
    assert answer.status_code == 500
    assert "audit" not in answer.text
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_ready_says_what_is_wrong(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path) as api:
        found = httpx.get(f"{api.url}/ready")
        assert (found.status_code, found.json()["status"]) == (200, "ready")
        assert [each["name"] for each in found.json()["checks"]] == ["database", "migrations", "storage"]
    with serving_here(engine, tmp_path, landing_url="s3://no-bucket/x", s3_endpoint="http://127.0.0.1:1") as api:
        found = httpx.get(f"{api.url}/ready", timeout=60)
        assert found.status_code == 503
        (wrong,) = (each for each in found.json()["checks"] if not each["ok"])
        assert wrong["name"] == "storage"
        assert "127.0.0.1" not in wrong["message"]


def test_without_a_database_it_lives_and_says_that_it_is_not_ready(server: Server, tmp_path: Path) -> None:
    gone = pool.connect(server.url("never_made"), application="test", timeout=2)
    with serving_here(gone, tmp_path) as api:
        assert httpx.get(f"{api.url}/health").status_code == 200
        found = httpx.get(f"{api.url}/ready")
        assert found.status_code == 503
        assert [each["name"] for each in found.json()["checks"] if not each["ok"]] == ["database", "migrations"]
        asked = httpx.get(f"{api.url}/api/audit", headers=bearer("bulk_0_0"))
        assert (asked.status_code, asked.json()["type"]) == (503, "/problems/unavailable")
        assert int(asked.headers["Retry-After"]) > 0


def test_a_body_that_would_fill_the_memory_is_refused(api: Api) -> None:
    client = api.client("ada")
    piece = b" " * (1 << 20)
    for content in (piece * 33, (piece for _ in range(40))):
        answer = client.post("/v1/imports", content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["type"]) == (413, "/problems/too-large")


def test_a_look_that_hangs_is_waited_for_by_one_request_only(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks meanwhile is told what was found last, so that no thread waits that others need."""
    monkeypatch.setattr(readiness, "GOOD_FOR_SECONDS", 0.0)
    assert httpx.get(f"{api.url}/ready").status_code == 200
    with ThreadPoolExecutor(1) as executor:
        with transaction(api.engine) as connection:
            connection.execute("LOCK TABLE _yoyo_migration")
            slow = executor.submit(httpx.get, f"{api.url}/ready", timeout=60)
            until(lambda: count(api.engine, WAITING) == 1, "a look hangs")
            for _ in range(3):
                assert httpx.get(f"{api.url}/ready", timeout=5).status_code == 200
            assert not slow.done()
        assert slow.result().status_code == 200


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
