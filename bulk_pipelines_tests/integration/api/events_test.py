"""News of jobs as server-sent events: told as they happen, by one look a second, to as many as listen."""

import contextlib
import http.client
import json
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import pytest
from sqlalchemy import Engine, event

from bulk_pipelines.api import events, live
from bulk_pipelines.api.live import Listener
from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.api.states import State
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines_tests.scenes.api import Api, bearer, process
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.api_imports import done, sent, users
from bulk_pipelines_tests.scenes.waiting import until

PATIENCE = 60.0
Event = dict[str, Any]


class Stream:
    """A stream of events, and what has come of it so far."""

    def __init__(self, api: Api, path: str, headers: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=PATIENCE)
        self.connection.request("GET", path, headers=headers)
        self.wire = self.connection.sock
        self.answer = self.connection.getresponse()
        self.events: list[Event] = []
        self.comments = 0
        self.ended = False
        self.thread = threading.Thread(target=self.read, daemon=True)

    def read(self) -> None:
        found: Event = {}
        with contextlib.suppress(OSError, http.client.HTTPException):
            while line := self.answer.readline().decode():
                name, _, value = line.rstrip("\n").partition(": ")
                if line == "\n" and "data" in found:
                    self.events.append(found | {"data": json.loads(found["data"])})
                    found = {}
                elif line.startswith(":"):
                    self.comments += 1
                elif name in ("event", "id", "data"):
                    found[name] = value
            self.ended = True

    def __enter__(self) -> Self:
        assert self.answer.status == 200, self.answer.read()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.wire.shutdown(socket.SHUT_RDWR)
        self.thread.join(PATIENCE)
        self.answer.close()
        self.connection.close()

    def of(self, job_key: str) -> list[Event]:
        return [each for each in self.events if each["data"]["job_id"] == job_key]

    def comes(self, number: int) -> None:
        until(lambda: len(self.events) >= number, f"{number} events have come", PATIENCE)


def listening(api: Api, path: str, owner: str = "ada", scope: Scope = Scope.READ, last: str | None = None) -> Stream:
    return Stream(api, path, bearer(api.text(owner, scope)) | ({"Last-Event-ID": last} if last else {}))


def test_a_job_is_told_of_until_it_is_over(api: Api) -> None:
    key = sent(api.client("ada"), users(1, 2, 3) + b",nobody,Name,reader,true\n").json()["job_id"]
    with listening(api, f"/v1/jobs/{key}/events") as stream:
        assert stream.answer.getheader("content-type") == "text/event-stream; charset=utf-8"
        stream.comes(1)
        first = stream.events[0]
        assert (first["event"], first["data"]["status"], first["data"]["state"]) == ("progress", "pending", "SUBMITTED")
        done(api.engine, key)
        until(lambda: stream.ended, "the stream ends with the job", PATIENCE)
    last = stream.events[-1]
    assert last["event"] == "end"
    assert (last["data"]["status"], last["data"]["over"]) == ("completed_with_errors", True)
    assert (last["data"]["rows"], last["data"]["rejected_rows"]) == (4, 1)
    assert [each["reasons"][0]["code"] for each in last["data"]["errors"]] == ["invalid_email_format"]
    assert last["data"]["per_second"] > 0
    assert len({each["id"] for each in stream.events}) == len(stream.events), "no state is told twice"
    again = api.client("ada").get(f"/v1/jobs/{key}/events", headers={"Last-Event-ID": last["id"]})
    assert (again.status_code, again.content) == (204, b"")
    with listening(api, f"/v1/jobs/{key}/events", last=first["id"]) as late:
        until(lambda: late.ended, "what was missed is told at once", PATIENCE)
    assert [each["id"] for each in late.events] == [last["id"]]


def test_who_comes_back_is_told_what_has_changed_only(api: Api) -> None:
    key = asked(api.client("ada"), resource="users").json()["job_id"]
    with listening(api, f"/v1/jobs/{key}/events") as stream:
        stream.comes(1)
    with listening(api, f"/v1/jobs/{key}/events", last=stream.events[0]["id"]) as back:
        with transaction(api.engine) as connection:
            jobs.start(connection, key)
        back.comes(1)
        assert back.events[0]["data"]["state"] == "RUNNING"


def test_the_errors_of_items_are_told(api: Api) -> None:
    inputs = [{"indexKey": f"I{each}", "effectiveDate": 20240202, "asofindicator": "CLS"} for each in range(9)]
    key = api.client("ada").post("/jobs", json={"inputs": inputs}).json()["jobId"]
    with transaction(api.engine) as connection:
        connection.execute(
            "UPDATE job_item SET status = 'RETRY_WAIT', due_at = now(), error_class = 'transient',"
            " error_message = 'away ' || item_key"
        )
        connection.execute("UPDATE job SET pending_items = 0, retry_wait_items = 9")
    with listening(api, f"/v1/jobs/{key}/events") as stream:
        stream.comes(1)
    data = stream.events[0]["data"]
    assert [each["message"] for each in data["errors"]] == [f"away I{each}_20240202_CLS" for each in (8, 7, 6)]
    assert data["items"]["retry_wait"] == 9
    assert data["rows"] is None


def test_all_jobs_that_one_may_see_are_told_of(api: Api) -> None:
    mine = asked(api.client("ada"), resource="users").json()["job_id"]
    others = asked(api.client("eve"), resource="users").json()["job_id"]
    path = "/v1/jobs/events"
    with (
        listening(api, path) as ada,
        listening(api, path, "root", Scope.ADMIN) as root,
        listening(api, f"{path}?owner=eve", "root", Scope.ADMIN) as for_eve,
        listening(api, f"{path}?kind=import_users", "root", Scope.ADMIN) as imports,
    ):
        root.comes(2)
        ada.comes(1)
        for_eve.comes(1)
        new = sent(api.client("ada"), users(1)).json()["job_id"]
        completed(api.engine, mine)
        for stream in (ada, root):
            until(lambda: any(each["event"] == "end" for each in stream.of(mine)), "the end is told", PATIENCE)  # noqa: B023
            until(lambda: bool(stream.of(new)), "the new job is told of", PATIENCE)  # noqa: B023
        until(lambda: bool(imports.of(new)), "the import is told of", PATIENCE)
        assert not ada.of(others)
        assert {each["data"]["job_id"] for each in for_eve.events} == {others}
        assert {each["data"]["job_id"] for each in imports.events} == {new}
    for headers, status in (
        ({}, 401),
        (bearer(api.revoked("ada")), 401),
        (bearer(api.expired("ada")), 401),
        (bearer("bulk_0_x"), 401),
    ):
        assert httpx.get(api.url + path, headers=headers).status_code == status
    assert api.client("ada").get(path, params={"owner": "eve"}).status_code == 403


def test_one_look_a_second_is_enough_for_everybody(api: Api) -> None:
    keys = [asked(api.client("ada"), resource="users").json()["job_id"] for _ in range(10)]
    looks: list[float] = []
    paths = [f"/v1/jobs/{key}/events" for key in keys for _ in range(4)] + ["/v1/jobs/events"] * 4
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(listening(api, path)) for path in paths]
        for stream in streams:
            stream.comes(1)

        @event.listens_for(api.engine, "checkout")
        def looked(*_: object) -> None:
            looks.append(time.monotonic())

        began = time.monotonic()
        until(lambda: time.monotonic() > began + 4, "some seconds are over", PATIENCE)
        event.remove(api.engine, "checkout", looked)
        assert 1 <= len(looks) <= (time.monotonic() - began) / live.LOOK_SECONDS + 1


def test_a_silent_stream_beats_and_one_that_is_old_ends(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(events, "LONGEST_SECONDS", 3.0)
    key = asked(api.client("ada"), resource="users").json()["job_id"]
    with listening(api, f"/v1/jobs/{key}/events") as stream:
        until(lambda: stream.comments > 3, "it beats", PATIENCE)
        until(lambda: stream.ended, "it ends", PATIENCE)
    assert len(stream.events) == 1


def test_when_the_database_is_away_listeners_stay(api: Api) -> None:
    key = asked(api.client("ada"), resource="users").json()["job_id"]
    with listening(api, f"/v1/jobs/{key}/events") as stream:
        stream.comes(1)
        with transaction(api.engine) as connection:
            connection.execute("ALTER TABLE job_item RENAME TO lost")
        with transaction(api.engine) as connection:
            connection.execute("UPDATE job SET last_error = 'x'")
        with transaction(api.engine) as connection:
            connection.execute("ALTER TABLE lost RENAME TO job_item")
        stream.comes(2)
        assert stream.events[1]["data"]["last_error"] == "x"


def test_a_job_that_retention_removes_is_over(api: Api) -> None:
    key = asked(api.client("ada"), resource="users").json()["job_id"]
    with listening(api, f"/v1/jobs/{key}/events") as stream:
        stream.comes(1)
        with transaction(api.engine) as connection:
            connection.execute("DELETE FROM job")
        until(lambda: stream.ended, "the stream ends", PATIENCE)
    assert stream.events[-1]["data"] == {"job_id": key, "over": True}
    assert api.client("ada").get(f"/v1/jobs/{key}/events").status_code == 404


def test_one_owner_has_some_listeners_and_everybody_not_too_many(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "OF_OWNER", 1)
    monkeypatch.setattr(events, "MOST", 2)
    path = "/v1/jobs/events"
    with listening(api, path), listening(api, path, "bob"):
        refused = api.client("ada").get(path)
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/over-quota")
        full = api.client("eve").get(path)
        assert (full.status_code, full.json()["type"]) == (503, "/problems/unavailable")


def test_who_takes_news_slowly_gets_the_latest() -> None:
    listener = Listener("J1")
    for number in range(100):
        listener.tell(State("J1", "k", "o", over=False, digest=str(number), data="{}"))
        listener.tell(State("J2", "k", "o", over=False, digest=str(number), data="{}"))
    assert [state.digest for state in listener.waiting.values()] == ["99"]


@contextmanager
def many_listeners(url: str, text: str, path: str, number: int) -> Iterator[list[socket.socket]]:
    host, port = url.removeprefix("http://").split(":")
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {text}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        wires = []
        for _ in range(number):
            wires.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE)))
            wires[-1].sendall(request)
        for wire in wires:
            received = b""
            while b"event: progress" not in received:
                piece = wire.recv(1 << 16)
                assert piece, received
                received += piece
        yield wires


@pytest.mark.long
def test_a_thousand_listeners_and_others_are_served(database_url: str, engine: Engine, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
    text = Api(engine, None, "").text("ada")  # type: ignore[arg-type]
    with process(database_url, tmp_path) as (running, url):
        client = httpx.Client(base_url=url, headers=bearer(text), timeout=PATIENCE)
        key = asked(client, resource="users").json()["job_id"]
        seen = psutil.Process(running.pid)
        with many_listeners(url, text, f"/v1/jobs/{key}/events", 50):
            pass
        before = seen.memory_info().rss
        with many_listeners(url, text, f"/v1/jobs/{key}/events", 1_000) as wires:
            full = seen.memory_info().rss
            for number in range(3):
                with transaction(engine) as connection:
                    connection.execute("UPDATE job SET last_error = %s", [str(number)])
                for wire in wires:
                    received = b""
                    while f'"last_error":"{number}"'.encode() not in received:
                        received += wire.recv(1 << 16)
                assert client.get(f"/v1/exports/{key}").status_code == 200
            later = seen.memory_info().rss
            assert full - before < 100 << 20, f"{full - before:,} bytes"
            assert later - full < 20 << 20, f"{later - full:,} bytes"
        until(lambda: len(seen.net_connections()) < 20, "those who went away are forgotten", PATIENCE)
        with many_listeners(url, text, f"/v1/jobs/{key}/events", 20) as wires:
            running.send_signal(signal.SIGTERM)
            began = time.monotonic()
            for wire in wires:
                received = b""
                while piece := wire.recv(1 << 16):
                    received += piece
                assert received.endswith(b"0\r\n\r\n"), "the stream ends as it should"
            assert running.wait(timeout=PATIENCE) is not None
            assert time.monotonic() - began < PATIENCE
