"""Every form in which a file is sent, what is checked of it, and what is refused."""

import base64
import gzip
import hashlib
import itertools
from typing import Any

import pytest
from backports.zstd import compress

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines_tests.scenes import people_files
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_imports import (
    count,
    done,
    landed,
    nothing_is_left,
    sent,
    users,
)
from bulk_pipelines_tests.scenes.people_files import workbook


def test_a_body_is_landed_once_and_imported(api: Api) -> None:
    client = api.client("ada")
    answer = sent(client, users(1, 2, 3), {"X-Request-ID": "mine-1"})
    assert answer.status_code == 202, answer.text
    said = answer.json()
    assert answer.headers["Location"] == f"/v1/imports/{said['job_id']}"
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.headers["RateLimit-Policy"].startswith('"jobs";q=1000')
    assert (said["status"], said["resource_type"], said["mode"], said["owner"]) == ("pending", "users", "insert", "ada")
    assert (said["total_records"], said["total_is_estimate"], said["errors"]) == (None, True, [])
    assert said["request_id"] == "mine-1"
    job = done(api.engine, said["job_id"])
    assert landed(api) == [f"{job.job_key}/000001-sent"], "no second copy is made"
    assert (job.address, job.file_id) == ("127.0.0.1", said["file_id"])
    after = client.get(answer.headers["Location"]).json()
    assert (after["status"], after["total_records"], after["successful_records"]) == ("completed", 3, 3)
    assert (after["total_is_estimate"], after["error_records"], after["processed_records"]) == (False, 0, 3)
    assert count(api.engine, "SELECT count(*) FROM users") == 3


@pytest.mark.parametrize("behind", [False, True], ids=["fields first", "file first"])
def test_a_form_is_imported_with_its_fields_on_either_side_of_the_file(api: Api, behind: bool) -> None:
    fields: list[Any] = [("resource_type", (None, "users")), ("mode", (None, "upsert")), ("priority", (None, "7"))]
    file: list[Any] = [("file", ("C:\\data\\users\u202e.csv", users(1, 2), "text/csv"))]
    answer = api.client("ada").post("/v1/imports", files=file + fields if behind else fields + file)
    assert answer.status_code == 202, answer.text
    job = done(api.engine, answer.json()["job_id"])
    assert (job.status, job.params["mode"]) == ("COMPLETED", "upsert")
    assert count(api.engine, "SELECT priority FROM job") == 7
    assert job.result is not None
    assert job.result["files"][0]["source"] == "users�.csv", "a name is shown, and never used"


def test_a_workbook_is_sent_and_only_admins_give_expressions(api: Api) -> None:
    book = workbook([dict(user) | {"name": None} for user in people_files.users(3)], engine="openpyxl")
    fields: list[Any] = [("resource", (None, "users")), ("expressions", (None, "name=split_part(email, '@', 1)"))]
    file: list[Any] = [("file", ("users.xlsx", book, "application/octet-stream"))]
    answer = api.client("ada").post("/v1/imports", files=file + fields)
    assert (answer.status_code, "only an admin" in answer.text) == (403, True), answer.text
    answer = api.client("root", Scope.ADMIN).post("/v1/imports", files=file + fields)
    assert answer.status_code == 202, answer.text
    job = done(api.engine, answer.json()["job_id"])
    assert job.status == "COMPLETED", job.last_error
    assert count(api.engine, "SELECT count(*) FROM users WHERE name LIKE 'user_'") == 3


@pytest.mark.parametrize("packed", [gzip.compress, compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("told", [True, False], ids=["told", "recognised"])
def test_a_compressed_body_is_unpacked(api: Api, packed: Any, told: bool) -> None:
    coding = {"Content-Encoding": "gzip" if packed is gzip.compress else "zstd"} if told else {}
    answer = sent(api.client("ada"), packed(users(1, 2)), coding)
    assert answer.status_code == 202, answer.text
    assert done(api.engine, answer.json()["job_id"]).status == "COMPLETED"


@pytest.mark.parametrize(
    ("headers", "content", "status", "name"),
    [
        ({"Content-Encoding": "gzip"}, users(1), 400, "bad-compression"),
        ({"Content-Encoding": "gzip"}, gzip.compress(users(1))[:-9], 400, "bad-compression"),
        ({"Content-Encoding": "br"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Encoding": "gzip, zstd"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": "image/png"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": ""}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": "multipart/form-data"}, users(1), 415, "unsupported-media-type"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, users(1), 400, "invalid-input"),
        ({"Content-Digest": "sha-256=:AAAA:"}, users(1), 400, "invalid-input"),
        ({"Content-Digest": "nonsense"}, users(1), 400, "invalid-input"),
        ({"Idempotency-Key": "x" * 256}, users(1), 400, "invalid-input"),
    ],
    ids=itertools.count(),
)
def test_what_cannot_be_taken_is_refused_and_leaves_nothing(
    api: Api, headers: dict[str, str], content: bytes, status: int, name: str
) -> None:
    answer = sent(api.client("ada"), content, headers)
    assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{name}"), answer.text
    nothing_is_left(api)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"resource": "planets"}, "resource"),
        ({"resource": ""}, "resource"),
        ({"resource_type": "articles"}, "resource_type"),
        ({"mode": "replace"}, "mode"),
        ({"format": "xml"}, "format"),
        ({"on_error": "maybe"}, "on_error"),
        ({"on_error": "9" * 5_000}, "on_error"),
        ({"on_error": "9" * 5_000 + "%"}, "on_error"),
        ({"priority": "9" * 5_000}, "priority"),
        ({"validate_only": "perhaps"}, "validate_only"),
        ({"validate_only": "true", "mode": "upsert"}, "validate_only"),
        ({"match_on": "email"}, "match_on"),
        ({"priority": "101"}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"compression": "gzip"}, "compression"),
        ({"map": "[" * 5_000}, "map"),
        ({"ignore": "[" * 5_000}, "ignore"),
        ({"fields": '{"a":' * 5_000}, "fields"),
    ],
)
def test_an_option_that_is_wrong_is_named(api: Api, params: dict[str, str], field: str) -> None:
    answer = sent(api.client("ada"), users(1), {}, **params)
    assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text
    nothing_is_left(api)


def test_digests_are_checked(api: Api) -> None:
    client, content = api.client("ada"), users(1, 2)

    def digest(algorithm: str, of: bytes) -> str:
        return f"{algorithm}=:{base64.b64encode(hashlib.new(algorithm.replace('-', ''), of).digest()).decode()}:"

    for header in ("Content-Digest", "Repr-Digest"):
        wrong = sent(client, content, {header: digest("sha-256", b"other")})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "/problems/digest-mismatch")
        nothing_is_left(api)
    right = f"md5=:AAAA:, {digest('sha-256', content)}, {digest('sha-512', content)}"
    assert sent(client, content, {"Content-Digest": right}).status_code == 202
    packed = gzip.compress(content)
    good = {"Content-Encoding": "gzip", "Repr-Digest": digest("sha-256", packed)}
    assert sent(client, packed, good).status_code == 202
