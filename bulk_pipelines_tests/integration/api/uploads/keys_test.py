"""Idempotency keys of resumable uploads: a key stands for one request, and one that fails frees it."""

import base64

import pytest

from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import (
    nothing_is_left,
    sent,
    uploads_left,
)
from bulk_pipelines_tests.scenes.api_uploads import CONTENT, Wire, append, begun
from bulk_pipelines_tests.scenes.waiting import until


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
