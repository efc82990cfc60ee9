"""Imports that are asked for twice, or by an owner who has no room for them."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import quotas
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_imports import (
    HEADER,
    landed,
    line,
    sent,
    uploads_left,
    users,
)
from bulk_pipelines_tests.scenes.waiting import until


def test_a_key_stands_for_one_request_of_one_owner(api: Api) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": '"first"'}
    first = sent(client, users(1, 2), key)
    assert (first.status_code, first.headers.get("Idempotent-Replayed")) == (202, None)
    again = sent(client, users(1, 2), key)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.json()["job_id"] == first.json()["job_id"]
    assert again.json()["idempotency_key"] == "first"
    for content, params in ((users(1, 3), {}), (users(1, 2), {"mode": "upsert"})):
        other = sent(client, content, key, **params)
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
        assert other.json()["job_id"] == first.json()["job_id"]
    form = client.post("/v1/imports", files={"file": users(1, 2)}, data={"resource": "users"}, headers=key)
    assert form.status_code == 200, "the same file in a form is the same request"
    hers = sent(api.client("eve"), users(9), key)
    assert hers.status_code == 202, "another owner's key is another key"
    assert len(landed(api)) == 2
    assert uploads_left(api) == 0


def test_while_the_first_arrives_the_key_is_in_flight_and_the_key_of_a_dead_process_is_free(api: Api) -> None:
    client, key = api.client("ada"), {"Idempotency-Key": "slow"}
    answers: list[httpx.Response] = []

    def slowly() -> Iterator[bytes]:
        yield HEADER.encode() + b"x" * (2 << 20)
        until(lambda: uploads_left(api) == 1, "the first arrives")
        answers.append(sent(api.client("ada"), users(1), key))
        yield b"\n" + line(1).encode()

    first = sent(client, slowly(), key)
    assert first.status_code == 202, first.text
    assert (answers[0].status_code, answers[0].json()["type"]) == (409, "/problems/in-flight")
    assert int(answers[0].headers["Retry-After"]) > 0
    with transaction(api.engine) as connection:
        connection.execute(
            "INSERT INTO upload (upload_id, owner, job_key, idempotency_key, request, resumable, expires_at)"
            " VALUES ('Udead', 'ada', 'J20260101_999999', 'died', '{}', false, now() - interval '1 second')"
        )
    assert sent(client, users(5), {"Idempotency-Key": "died"}).status_code == 202


def test_limits_of_an_owner_are_told_and_kept(engine: Engine, tmp_path: Path) -> None:
    with serving_here(engine, tmp_path, owner_jobs=2, owner_bytes=1_000) as api:
        client = api.client("ada")
        first = sent(client, users(1))
        assert first.headers["RateLimit"].startswith('"jobs";r=1, ')
        assert sent(client, users(2), {"Idempotency-Key": "k"}).status_code == 202
        third = sent(client, users(3))
        assert (third.status_code, third.json()["type"]) == (429, "/problems/over-quota")
        assert int(third.headers["Retry-After"]) > 0
        assert sent(client, users(2), {"Idempotency-Key": "k"}).status_code == 200, "a repeated request takes no room"
        by_address = client.post("/v1/imports", json={"resource": "users", "url": "https://example.org/x.csv"})
        assert by_address.status_code == 429
        assert uploads_left(api) == 0
        assert len(landed(api)) == 2
        assert sent(api.client("eve"), users(*range(100))).status_code == 429


def test_submissions_that_wait_for_their_owner_give_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one submission of an owner does not end, the owner's others do not hold the connections that everybody
    needs."""
    monkeypatch.setattr(quotas, "PATIENT_SECONDS", 1)
    client, eve = api.client("ada"), api.client("eve")
    place = sent(client, b"", {"Upload-Complete": "?0"}).headers["Location"]
    with transaction(api.engine) as connection:
        connection.execute(queries.text("quotas", "one_at_a_time"), {"owner": "ada"})
        partial = {"Content-Type": "application/partial-upload", "Upload-Complete": "?0", "Upload-Offset": "0"}
        for answer in (
            client.post("/v1/imports", json={"resource": "users", "url": "https://example.org/x.csv"}),
            sent(client, users(1)),
            client.patch(place, content=b"id,", headers=partial),
        ):
            assert (answer.status_code, answer.json()["type"]) == (429, "/problems/over-quota"), answer.text
            assert int(answer.headers["Retry-After"]) > 0
        assert len(landed(api)) == 0
        assert sent(eve, users(1)).status_code == 202
    assert sent(client, users(1)).status_code == 202
