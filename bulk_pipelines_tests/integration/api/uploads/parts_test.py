"""Files that come in parts: what is kept of them, what is refused, and when they are whole."""

import base64
import hashlib
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.imports.sent import appending
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_imports import (
    count,
    done,
    landed,
    nothing_is_left,
    sent,
    uploads_left,
    users,
)
from bulk_pipelines_tests.scenes.api_uploads import CONTENT, PATCHED, Wire, append, begun, offset
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import Place


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
