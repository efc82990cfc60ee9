"""Uploads that break off, hang or are slow, and what is left of them, whatever ends them."""

import signal
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.files import receiving
from bulk_pipelines.api.serving import serving
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.imports.sent import appending, clearing
from bulk_pipelines.imports.sent import receiving as landing
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes.api import Api, process, serving_here
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
from bulk_pipelines_tests.scenes.api_uploads import CONTENT, PATCHED, Wire, append, begun, offset
from bulk_pipelines_tests.scenes.waiting import until


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
