"""Files of exports are fetched: whole or in part, from this machine or from S3."""

import hashlib
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.api_exports import asked, completed
from bulk_pipelines_tests.scenes.export_files import insert_users
from bulk_pipelines_tests.servers.processes import Place

MANY = 300_000


def test_a_part_of_the_file_and_conditions(api: Api) -> None:
    insert_users(api.engine, 200)
    client = api.client("ada")
    key = asked(client, resource="users").json()["job_id"]
    completed(api.engine, key)
    url = f"/v1/exports/{key}/download"
    whole = client.get(url)
    tag, size = whole.headers["etag"], len(whole.content)
    looked = client.head(url)
    assert (looked.status_code, looked.content) == (200, b"")
    for name in ("etag", "content-length", "repr-digest", "last-modified", "accept-ranges", "content-type"):
        assert looked.headers[name] == whole.headers[name]
    assert int(looked.headers["content-length"]) == size
    for asked_for, start, stop in (
        ("bytes=0-0", 0, 1),
        ("bytes=10-99", 10, 100),
        ("bytes=100-", 100, size),
        ("bytes=-7", size - 7, size),
        (f"bytes={size - 5}-{size + 1_000}", size - 5, size),
        (f"bytes=1-{10**17}", 1, size),
    ):
        part = client.get(url, headers={"Range": asked_for, "If-Range": tag})
        assert (part.status_code, part.content) == (206, whole.content[start:stop]), asked_for
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
        assert part.headers["etag"] == tag
    for headers in (
        {"Range": "bytes=0-1,5-6"},
        {"Range": "lines=1-2"},
        {"Range": "bytes=9-2"},
        {"Range": "bytes=-"},
        {"Range": "bytes=1-2", "If-Range": '"other"'},
        {"Range": "bytes=1-2", "If-Range": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"Range": f"bytes=-{size * 2}"},
    ):
        found = client.get(url, headers=headers)
        assert (found.status_code, found.content) == (200, whole.content), headers
    for beyond in (f"bytes={size}-", "bytes=-0", f"bytes={10**17}-"):
        refused = client.get(url, headers={"Range": beyond})
        assert (refused.status_code, refused.headers["content-range"]) == (416, f"bytes */{size}")
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        assert client.get(url, headers={"If-None-Match": known}).status_code == 304
    assert client.get(url, headers={"If-None-Match": '"x"'}).status_code == 200
    for path in (api.settings.home / "exports").iterdir():
        path.unlink()
    gone = client.get(url)
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/gone")


@pytest.mark.long
def test_a_file_that_is_replaced_while_it_is_fetched_is_not_taken_for_whole(api: Api) -> None:
    insert_users(api.engine, MANY)
    client = api.client("ada")
    key = asked(client, resource="users").json()["job_id"]
    completed(api.engine, key)
    with client.stream("GET", f"/v1/exports/{key}/download") as answer:
        size, received = int(answer.headers["content-length"]), 0
        assert size > 16 << 20, "this must be more than the buffers between the two hold"
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete|without sending complete"):
            for piece in answer.iter_raw():
                if not received:
                    for path in (api.settings.home / "exports").iterdir():
                        path.unlink()
                received += len(piece)
    assert 0 < received < size


def test_a_file_on_s3_is_fetched_from_there(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_bucket: Place
) -> None:
    insert_users(engine, 500)
    s3 = s3_bucket.access.s3
    place = {
        "exports_url": f"{s3_bucket.url}/exports",
        "s3_endpoint": s3.endpoint,
        "s3_access_key_id": s3.access_key_id,
        "s3_secret_access_key": s3.secret_access_key,
    }
    for name, value in place.items():
        monkeypatch.setenv(f"BULK_{name.upper()}", value)
    with serving_here(engine, tmp_path, **place) as api:
        client = api.client("ada")
        key = asked(client, resource="users").json()["job_id"]
        job = completed(engine, key)
        assert job.result is not None
        told = client.get(f"/v1/exports/{key}/download")
        assert (told.status_code, told.content) == (307, b"")
        assert "X-Amz-Signature" in told.headers["location"]
        fetched = httpx.get(told.headers["location"])
        assert hashlib.sha256(fetched.content).hexdigest() == job.result["sha256"]
        looked = client.head(f"/v1/exports/{key}/download")
        assert (looked.status_code, int(looked.headers["content-length"])) == (200, job.result["bytes"])
        tag = {"If-None-Match": looked.headers["etag"]}
        assert client.get(f"/v1/exports/{key}/download", headers=tag).status_code == 304
    with serving_here(engine, tmp_path, api_redirects=False, **place) as api:
        client = api.client("ada")
        passed_on = client.get(f"/v1/exports/{key}/download")
        assert (passed_on.status_code, passed_on.content) == (200, fetched.content)
        part = client.get(f"/v1/exports/{key}/download", headers={"Range": "bytes=7-70"})
        assert (part.status_code, part.content) == (206, fetched.content[7:71])
