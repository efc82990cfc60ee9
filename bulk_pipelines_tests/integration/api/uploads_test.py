"""Resumable uploads, and what is left of uploads that break off, whatever ends them."""

import base64
import hashlib
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.files import receiving
from bulk_pipelines.api.serving import serving
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.imports.sent import appending, clearing
from bulk_pipelines.imports.sent import receiving as landing
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.api import Api, bearer, process, serving_here
from bulk_pipelines_tests.scenes.api_imports import (
    HEADER,
    count,
    done,
    landed,
    line,
    nothing_is_left,
    sent,
    uploads_left,
    users,
)
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import Place

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


def test_a_file_that_comes_in_parts_is_imported_as_a_whole(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "PART_BYTES", 10_000)
    client = api.client("ada")
    digest = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
    first = begun(
        client, CONTENT[:5], False, **{"Upload-Length": str(len(CONTENT)), "Repr-Digest": f"sha-256=:{digest}:"}
    )
    place = first.headers["Location"]
    assert (first.headers["Upload-Offset"], first.headers["Upload-Complete"]) == ("5", "?0")
    assert append(client, place, CONTENT[5:70_005], 5, False).status_code == 204
    assert offset(client, place) == 70_005
    wrong = append(client, place, b"x", 5, False)
    assert (wrong.status_code, wrong.headers["Upload-Offset"]) == (409, "70005")
    assert wrong.json()["type"] == "/problems/mismatching-upload-offset"
    early = append(client, place, b"", 70_005, True)
    assert (early.status_code, early.json()["type"]) == (400, "/problems/inconsistent-upload-length")
    last = append(client, place, CONTENT[70_005:], 70_005, True)
    assert (last.status_code, last.headers["Upload-Complete"]) == (202, "?1"), last.text
    again = append(client, place, b"", len(CONTENT), True)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true"), again.text
    assert again.json()["job_id"] == last.json()["job_id"]
    over = client.head(place)
    assert (over.headers["Upload-Complete"], over.headers["Upload-Offset"]) == ("?1", str(len(CONTENT)))
    more = append(client, place, b"more", len(CONTENT), False)
    assert (more.status_code, more.json()["type"]) == (400, "/problems/completed-upload")
    assert client.delete(place).status_code == 400
    job = done(api.engine, last.json()["job_id"])
    assert job.status == "COMPLETED"
    assert count(api.engine, "SELECT count(*) FROM users") == 2_000
    assert landed(api) == [f"{job.job_key}/000001-sent"], "the parts are gone"


def test_a_whole_file_at_once_may_be_resumable_too(api: Api) -> None:
    answer = begun(api.client("ada"), CONTENT, complete=True)
    assert (answer.status_code, answer.headers["Upload-Complete"]) == (202, "?1")
    assert done(api.engine, answer.json()["job_id"]).status == "COMPLETED"


def test_another_content_than_the_digest_says_is_not_loaded(api: Api) -> None:
    client = api.client("ada")
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    place = begun(client, CONTENT[:100]).headers["Location"]
    refused = append(client, place, CONTENT[100:200], 100, False, **{"Content-Digest": f"sha-256=:{wrong}:"})
    assert (refused.status_code, refused.json()["type"]) == (400, "/problems/digest-mismatch")
    assert offset(client, place) == 100
    whole = begun(client, CONTENT, complete=True, **{"Repr-Digest": f"sha-256=:{wrong}:"})
    with pytest.raises(Exception, match="another sha-256"):
        done(api.engine, whole.json()["job_id"])
    assert count(api.engine, "SELECT count(*) FROM users") == 0


def test_lengths_are_kept(api: Api) -> None:
    client = api.client("ada")
    place = begun(client, b"", False, **{"Upload-Length": "10"}).headers["Location"]
    for content, headers in ((b"x" * 11, {}), (b"x", {"Upload-Length": "11"})):
        answer = append(client, place, iter([content]) if not headers else content, 0, False, **headers)
        assert answer.status_code in (400, 413), answer.text
        assert offset(client, place) == 0
    contradiction = append(client, place, b"x" * 5, 0, True)
    assert contradiction.json()["type"] == "/problems/inconsistent-upload-length"
    other = sent(client, b"xx", {"Upload-Complete": "?1", "Upload-Length": "3"})
    assert other.json()["type"] == "/problems/inconsistent-upload-length"


def test_an_upload_is_given_up(api: Api) -> None:
    client = api.client("ada")
    place = begun(client, CONTENT).headers["Location"]
    assert len(landed(api)) == 1
    assert client.delete(place).status_code == 204
    nothing_is_left(api)
    for answer in (client.head(place), client.delete(place), append(client, place, b"", 0, True)):
        assert answer.status_code == 404


def test_what_arrives_in_parts_counts_when_it_arrives(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "PART_BYTES", 600)
    with serving_here(engine, tmp_path, owner_bytes=1_000) as api:
        client = api.client("ada")
        place = begun(client, CONTENT[:400]).headers["Location"]
        assert append(client, place, CONTENT[400:600], 400, False).status_code == 204
        for content in (CONTENT[600:1_100], iter([CONTENT[600:1_100]])):
            refused = append(client, place, content, 600, False)
            assert (refused.status_code, refused.json()["type"]) == (429, "/problems/over-quota")
        assert int(refused.headers["Retry-After"]) > 3_600
        assert offset(client, place) == 600
        assert len(landed(api)) == 2, "nothing is left of a part that was refused"
        other = sent(client, CONTENT[:500], {"Upload-Complete": "?0"})
        assert other.status_code == 429, "another upload has no other limit"
        last = append(client, place, CONTENT[600:900], 600, True)
        assert last.status_code == 202, last.text
        assert last.headers["RateLimit"].endswith('"bytes";r=100'), "no byte counts twice"
        assert count(engine, "SELECT bytes FROM sent_bytes") == 900


def test_parts_that_came_too_late_or_were_dropped_leave_no_file(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "PART_BYTES", 1 << 20)
    client = api.client("ada")
    wrong = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    place = begun(client, CONTENT[:100]).headers["Location"]
    large = b"x" * (3 << 20)
    refused = append(client, place, large, 100, False, **{"Content-Digest": f"sha-256=:{wrong}:"})
    assert refused.json()["type"] == "/problems/digest-mismatch"
    assert len(landed(api)) == 1
    hanging = Wire(api.url, api.text("ada"), "PATCH", place, 2 << 20, **(PATCHED | {"Upload-Offset": "100"}))
    hanging.send(large[: 1 << 20])
    until(lambda: count(api.engine, "SELECT bytes FROM upload") > 1 << 20, "the first part has come")
    there = offset(client, place)
    hanging.send(large[: 1 << 20])
    assert hanging.answer().startswith(b"HTTP/1.1 409 ")
    assert offset(client, place) == there
    assert len(landed(api)) == 2


def test_a_key_names_one_resumable_upload(api: Api) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": "mine"}
    lost = begun(client, CONTENT[:10], False, **key).headers["Location"]
    other = sent(client, b"", {"Upload-Complete": "?0", **key}, mode="upsert")
    assert other.json()["type"] == "/problems/in-flight"
    place = begun(client, CONTENT[:10], False, **key).headers["Location"]
    assert client.head(lost).status_code == 404, "whoever has lost the address begins anew"
    last = append(client, place, CONTENT[10:], 10, True)
    assert last.json()["idempotency_key"] == "mine"
    again = sent(client, b"", {"Upload-Complete": "?0", **key})
    assert (again.status_code, again.json()["job_id"]) == (200, last.json()["job_id"])


@pytest.mark.parametrize("refused", ["digest", "length", "broken off"])
def test_a_first_request_that_fails_frees_its_key(api: Api, refused: str) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": "mine"}
    if refused == "broken off":
        headers = {"Upload-Complete": "?0", "Content-Type": "text/csv", **key}
        wire = Wire(api.url, api.text("ada"), "POST", "/v1/imports?resource=users", 50_000_000, **headers)
        wire.send(CONTENT)
        until(lambda: uploads_left(api) == 1, "the upload has begun", 60)
        wire.close()
        until(lambda: uploads_left(api) == 0, "the upload is given up", 60)
    else:
        wrong = base64.b64encode(bytes(32)).decode()
        said = {"digest": {"Content-Digest": f"sha-256=:{wrong}:"}, "length": {"Upload-Length": "5"}}[refused]
        first = sent(client, CONTENT, {"Upload-Complete": "?0", **said, **key})
        assert first.status_code in (400, 413), first.text
    nothing_is_left(api)
    assert begun(client, CONTENT, True, **key).status_code == 202


OTHERS: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"resource": "articles"}, {}),
    ({"mode": "upsert"}, {}),
    ({"on_error": "abort"}, {}),
    ({"validate_only": "true"}, {}),
    ({}, {"Upload-Length": "11"}),
    ({}, {"Content-Encoding": "gzip"}),
    ({}, {"Repr-Digest": f"sha-256=:{base64.b64encode(bytes(32)).decode()}:"}),
]
"""Parameters and headers of requests that differ from the first one. Of a file that was sent whole, nothing is kept
that the last two could be compared with."""


@pytest.mark.parametrize("first", ["resumable", "whole", "address"])
def test_a_key_stands_for_one_request(api: Api, first: str) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": "mine"}
    if first == "address":
        asked = {"resource": "users", "url": "https://example.org/users.csv"}
        assert client.post("/v1/imports", json=asked, headers=key).status_code == 202
    else:
        sends = {"Upload-Complete": "?1"} if first == "resumable" else {}
        assert sent(client, CONTENT, {**key, **sends}).status_code == 202
        for content, complete in ((b"", "?0"), (CONTENT, "?1")):
            again = sent(client, content, {**key, "Upload-Complete": complete})
            assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    for params, headers in OTHERS[:-2] if first == "whole" else OTHERS:
        other = sent(client, b"", {**key, "Upload-Complete": "?0", **headers}, **params)
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused"), other.text
    assert uploads_left(api) == 0


def test_an_address_waits_for_the_upload_that_has_its_key(api: Api) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": "mine"}
    place = begun(client, CONTENT, False, **key).headers["Location"]
    asked = {"resource": "users", "url": "https://example.org/users.csv"}
    answer = client.post("/v1/imports", json=asked, headers=key)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/in-flight")
    assert int(answer.headers["Retry-After"]) > 0
    assert client.post("/v1/imports", json=asked, headers={"Idempotency-Key": "other"}).status_code == 202
    assert api.client("eve").post("/v1/imports", json=asked, headers=key).status_code == 202
    assert append(client, place, b"", len(CONTENT), True).status_code == 202
    assert client.post("/v1/imports", json=asked, headers=key).status_code == 422


def test_a_length_that_is_told_late_is_kept(api: Api) -> None:
    client, text = api.client("ada"), api.text("ada")
    place = begun(client).headers["Location"]
    told = append(client, place, CONTENT[:10], 0, False, **{"Upload-Length": "100"})
    assert (told.status_code, told.headers["Upload-Length"]) == (204, "100")
    for length in ({}, {"Upload-Length": "100"}):
        longer = append(client, place, iter([b"x" * 91]), 10, False, **length)
        assert (longer.status_code, longer.json()["type"]) == (413, "/problems/too-large"), longer.text
    short = append(client, place, iter([b"x" * 40]), 10, True)
    assert (short.status_code, short.json()["type"]) == (400, "/problems/invalid-input"), short.text
    place = begun(client).headers["Location"]
    short = append(client, place, iter([b"x" * 50]), 0, True, **{"Upload-Length": "100"})
    assert (short.status_code, short.json()["type"]) == (400, "/problems/invalid-input"), short.text
    assert count(api.engine, "SELECT count(*) FROM job") == 0
    place = begun(client).headers["Location"]
    longer = append(client, place, iter([b"x" * 101]), 0, True, **{"Upload-Length": "100"})
    assert (longer.status_code, longer.json()["type"]) == (413, "/problems/too-large"), longer.text
    place = begun(client).headers["Location"]
    wire = Wire(api.url, text, "PATCH", place, 100, **PATCHED)
    wire.send(b"x" * 50)
    wire.close()
    until(lambda: count(api.engine, "SELECT count(*) FROM upload WHERE bytes = 50 AND length = 100") >= 1, "it is cut")
    assert count(api.engine, "SELECT count(*) FROM job") == 0


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


def test_an_upload_that_breaks_off_leaves_nothing(api: Api) -> None:
    text = api.text("ada")
    wire = Wire(api.url, text, "POST", "/v1/imports?resource=users", 50_000_000)
    wire.send(b"x" * 3_000_000)
    until(lambda: landed(api) != [], "the file arrives")
    wire.close()
    until(lambda: landed(api) == [] and uploads_left(api) == 0, "everything is gone")
    nothing_is_left(api)


def test_what_came_before_a_break_is_kept_of_a_resumable_upload(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "PART_BYTES", 100_000)
    client, text = api.client("ada"), api.text("ada")
    place = begun(client).headers["Location"]
    content = users(*range(1, 60_001))
    wire = Wire(api.url, text, "PATCH", place, len(content), **PATCHED)
    wire.send(content[: 3 << 20])
    until(lambda: count(api.engine, "SELECT bytes FROM upload") >= 1 << 20, "a part has arrived")
    wire.close()
    there = offset(client, place)
    assert 1 << 20 <= there <= 3 << 20
    last = append(client, place, content[there:], there, True)
    assert done(api.engine, last.json()["job_id"]).status == "COMPLETED"
    assert count(api.engine, "SELECT count(*) FROM users") == 60_000


def test_a_new_request_takes_the_upload_over_from_one_that_hangs(api: Api) -> None:
    client, text = api.client("ada"), api.text("ada")
    place = begun(client).headers["Location"]
    hanging = Wire(api.url, text, "PATCH", place, 50_000, **{**PATCHED, "Upload-Complete": "?0"})
    hanging.send(b"old" * 10_000)
    until(lambda: count(api.engine, "SELECT term FROM upload") == 2, "the hanging request has the upload")
    assert offset(client, place) == 0
    assert append(client, place, CONTENT[:100], 0, False).status_code == 204
    hanging.send(b"old" * 6_666 + b"xx")
    assert hanging.answer().startswith(b"HTTP/1.1 409 ")
    assert offset(client, place) == 100
    last = append(client, place, CONTENT[100:], 100, True)
    assert done(api.engine, last.json()["job_id"]).status == "COMPLETED"


SLOW_FORM = b"""--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n%s\r\n--x--\r\n"""


@pytest.mark.parametrize("kind", ["text/csv", "multipart/form-data; boundary=x"])
def test_a_slow_sender_keeps_its_upload(api: Api, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(landing, "PUT_OFF_SECONDS", 0.2)
    content = users(*range(20)) if kind == "text/csv" else SLOW_FORM % users(*range(20))
    text = api.text("ada")
    wire = Wire(api.url, text, "POST", "/v1/imports?resource=users", len(content), **{"Content-Type": kind})
    for seconds in (31, 32):
        wire.send(content[:150])
        content = content[150:]
        until(partial(lasts, api, seconds), "the upload is put off while nothing comes", 10)
    wire.send(content)
    assert wire.answer().startswith(b"HTTP/1.1 202 ")


def test_empty_beats_are_no_part(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(receiving, "SILENT_SECONDS", 0.5)
    place = begun(api.client("ada")).headers["Location"]
    wire = Wire(api.url, api.text("ada"), "PATCH", place, 10, **PATCHED)
    assert wire.answer().startswith(b"HTTP/1.1 408 "), "nobody is waited for without end"
    wire.close()
    assert landed(api) == []
    wire = Wire(api.url, api.text("ada"), "PATCH", place, 10, **PATCHED)
    wire.send(b"id,")
    assert wire.answer().startswith(b"HTTP/1.1 408 ")
    assert offset(api.client("ada"), place) == 3
    assert len(landed(api)) == 1


def test_time_that_is_not_the_senders_does_not_count(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads while the table is locked, for longer than a sender may be silent."""
    monkeypatch.setattr(receiving, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(receiving, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(receiving, "PATIENT_SECONDS", 0.5)
    monkeypatch.setattr(receiving, "SLOWEST", 1_000_000)
    wire = Wire(api.url, api.text("ada"), "POST", "/v1/imports?resource=users", len(CONTENT))
    with transaction(api.engine) as connection:
        connection.execute("LOCK TABLE upload")
        wire.send(CONTENT)
        until(lambda: waits(api), "the upload waits for a second", 10)
    assert wire.answer().startswith(b"HTTP/1.1 202 ")


def lasts(api: Api, seconds: int) -> bool:
    return count(api.engine, f"SELECT count(*) FROM upload WHERE expires_at > created_at + interval '{seconds} s'") == 1


def waits(api: Api) -> bool:
    asked = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state_change < now() - interval '1 s'"
    )
    return count(api.engine, asked) == 1


@pytest.mark.long
def test_a_process_that_is_killed_leaves_nothing_half(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path))
    monkeypatch.setattr(appending, "PART_BYTES", 1 << 20)
    with serving_here(engine, tmp_path) as second:
        text = second.text("ada")
        client = second.client("ada")
        place = begun(client).headers["Location"]
        with process(database_url, tmp_path) as (running, url):
            whole = Wire(url, text, "POST", "/v1/imports?resource=users", 50_000_000, **{"Idempotency-Key": "k"})
            whole.send(b"x" * 3_000_000)
            content = HEADER.encode() + b"".join(line(each).encode() for each in range(250_000))
            resumed = Wire(url, text, "PATCH", place, len(content), **PATCHED)
            resumed.send(content[: 17 << 20])
            first = Wire(
                url,
                text,
                "POST",
                "/v1/imports?resource=users",
                50_000_000,
                **{"Upload-Complete": "?0", "Idempotency-Key": "f"},
            )
            first.send(b"x" * (17 << 20))
            until(lambda: count(engine, "SELECT count(*) FROM upload WHERE bytes > 0") == 2, "parts have arrived", 60)
            until(lambda: any("000001-sent" in each for each in landed(second)), "the file arrives", 60)
            running.send_signal(signal.SIGKILL)
            running.wait()
        for key in ("k", "f"):
            waits = sent(client, users(1), {"Idempotency-Key": key})
            assert waits.json()["type"] == "/problems/in-flight"
            assert int(waits.headers["Retry-After"]) <= 30, "nobody waits for a dead process for long"
        assert count(engine, "SELECT count(*) FROM job") == 0
        there = offset(client, place)
        assert 0 < there <= 17 << 20
        last = append(client, place, content[there:], there, True)
        assert last.status_code == 202, last.text
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE upload SET expires_at = now() WHERE NOT told")
        anew = begun(client, users(2), complete=True, **{"Idempotency-Key": "f"})
        assert client.post(f"/v1/imports/{anew.json()['job_id']}/cancel").status_code == 200
        assert clearing.clear_all(engine) == 2
        kept = {answer.json()["job_id"] for answer in (anew, last)}
        assert {each.partition("/")[0] for each in landed(second)} == kept
        assert sent(client, users(1), {"Idempotency-Key": "k"}).status_code == 202
        done(engine, last.json()["job_id"])
        assert count(engine, "SELECT count(*) FROM users") == 250_000


@pytest.mark.long
def test_stopped_in_the_middle_of_an_upload_it_ends_and_leaves_nothing(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    api = Api(engine, Settings(home=tmp_path), "")
    text = api.text("ada")
    with process(database_url, tmp_path) as (running, url):
        wire = Wire(url, text, "POST", "/v1/imports?resource=users", 50_000_000)
        wire.send(b"x" * 3_000_000)
        until(lambda: landed(api) != [], "the file arrives", 60)
        running.send_signal(signal.SIGTERM)
        running.wait(timeout=serving.DRAIN_SECONDS + 20)
        wire.close()
    until(lambda: landed(api) == [], "nothing is left", 10)
    nothing_is_left(api)


def test_files_are_landed_on_s3_as_well(
    engine: Engine, tmp_path: Path, s3_bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = s3_bucket.access.s3
    chosen = {
        "landing_url": f"{s3_bucket.url}/landed",
        "s3_endpoint": access.endpoint,
        "s3_access_key_id": access.access_key_id,
        "s3_secret_access_key": access.secret_access_key,
    }
    for name, value in chosen.items():
        monkeypatch.setenv(f"BULK_{name.upper()}", value)
    with (
        serving_here(engine, tmp_path, **chosen) as api,
        locations.folder(chosen["landing_url"], s3_bucket.access) as storage,
    ):
        client = api.client("ada")
        whole = sent(client, users(1, 2))
        assert whole.status_code == 202, whole.text
        place = begun(client, users(3, 4)[:40]).headers["Location"]
        parts = append(client, place, users(3, 4)[40:], 40, True)
        for answer in (whole, parts):
            assert done(engine, answer.json()["job_id"]).status == "COMPLETED"
        assert sorted(each.key for each in storage.entries()) == sorted(
            f"{each.json()['job_id']}/000001-sent" for each in (whole, parts)
        )
        given_up = begun(client, b"id,").headers["Location"]
        assert client.delete(given_up).status_code == 204
        wire = Wire(api.url, api.text("ada"), "POST", "/v1/imports?resource=users", 50_000_000)
        wire.send(b"x" * 12_000_000)
        until(lambda: uploads_left(api) == 1, "the file arrives")
        wire.close()
        until(lambda: uploads_left(api) == 0, "it is cleared away")
        assert len(list(storage.entries())) == 2
    assert count(engine, "SELECT count(*) FROM users") == 4
