"""Where the files of an import come from, seen through Dagster: storages, web servers, and what cannot be had."""

import gzip

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import submission
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.storage import locations
from bulk_pipelines_tests.scenes.import_assets import SAMPLES, Installation
from bulk_pipelines_tests.servers.processes import LoginServer, Place
from bulk_pipelines_tests.servers.web_server import WebServer, content


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("/nowhere/users.csv", "/nowhere/users.csv does not exist"),
        ("http://127.0.0.1:9/users.csv", "not a public web server"),
        ("http://someone:hunter2@127.0.0.1:9/users.csv", "not a public web server"),
    ],
)
def test_a_source_that_cannot_be_had_is_said_without_secrets(
    installation: Installation, source: str, message: str
) -> None:
    with transaction(installation.engine) as connection:
        request = Options("users").request((RequestedFile(source),))
        job = submission.submit(connection, request, Sender("me", "ui")).job
    result = installation.run(job)
    assert not result.success
    error = installation.find(job).last_error or ""
    assert message in error
    assert "hunter2" not in error


def wanted(installation: Installation, source: str) -> Job:
    with transaction(installation.engine) as connection:
        request = Options("users").request((RequestedFile(source),))
        job = submission.submit(connection, request, Sender("me", "ui")).job
    installation.run(job)
    return installation.find(job)


def test_from_s3_gzipped(installation: Installation, s3_bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    given = s3_bucket.access.s3
    monkeypatch.setenv("BULK_S3_ENDPOINT", given.endpoint)
    monkeypatch.setenv("BULK_S3_ACCESS_KEY_ID", given.access_key_id)
    monkeypatch.setenv("BULK_S3_SECRET_ACCESS_KEY", given.secret_access_key)
    with locations.folder(s3_bucket.url, s3_bucket.access) as storage:
        storage.put("users.csv.gz", gzip.compress((SAMPLES / "users.csv").read_bytes()))
        source = storage.url_of("users.csv.gz")
    assert wanted(installation, source).status is JobState.COMPLETED_WITH_ERRORS
    assert installation.count("users") == 3


def test_from_ftp(installation: Installation, ftp_server: LoginServer, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ftp_server.place()
    monkeypatch.setenv("BULK_LOGIN_USER", place.access.login.user)
    monkeypatch.setenv("BULK_LOGIN_PASSWORD", place.access.login.password)
    with locations.folder(place.url, place.access) as storage:
        storage.put("users.csv", (SAMPLES / "users.csv").read_bytes())
        source = storage.url_of("users.csv")
    assert wanted(installation, source).status is JobState.COMPLETED_WITH_ERRORS
    assert installation.count("users") == 3


def test_from_a_web_server(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_ALLOW_PRIVATE_HTTP", "yes")
    with WebServer() as server:
        server.routes["/users.csv"] = content((SAMPLES / "users.csv").read_bytes())
        job = wanted(installation, f"{server.url}/users.csv")
    assert job.status is JobState.COMPLETED_WITH_ERRORS
    assert installation.count("users") == 3
