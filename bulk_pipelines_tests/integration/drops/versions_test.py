"""The version of a file that was taken is the one that is imported, or none: a newer one is a file of its own."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines_tests.scenes import drops as drop_scene
from bulk_pipelines_tests.scenes.drop_imports import Drops
from bulk_pipelines_tests.scenes.drops import Box, box_of, folder_box
from bulk_pipelines_tests.scenes.listening import before, listening

REPLACED = "it was replaced before it was landed"
REMOVED = "it was removed before it was landed"
BOXES = ["folder", "s3_bucket", "ftp_server", "sftp_server"]
OTHER_FTP = ["plain_ftp_server", "sizeless_ftp_server", "ftps_server", "ftpes_server"]


@pytest.fixture
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box:
    if request.param == "folder":
        return folder_box(tmp_path / "inbox")
    server = request.getfixturevalue(request.param)
    return box_of(request.param, server if request.param == "s3_bucket" else server.place())


@pytest.fixture
def drops(engine: Engine, box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drops:
    given = box.access
    for name, value in {
        "BULK_HOME": str(tmp_path / "home"),
        "BULK_S3_ENDPOINT": given.s3.endpoint,
        "BULK_S3_ACCESS_KEY_ID": given.s3.access_key_id,
        "BULK_S3_SECRET_ACCESS_KEY": given.s3.secret_access_key,
        "BULK_LOGIN_USER": given.login.user,
        "BULK_LOGIN_PASSWORD": given.login.password,
        "BULK_SFTP_KNOWN_HOSTS": given.login.known_hosts,
        "BULK_CA_FILE": given.ca_file,
    }.items():
        monkeypatch.setenv(name, value)
    return Drops(engine, box)


@pytest.mark.parametrize("box", BOXES + OTHER_FTP, indirect=True)
def test_a_version_is_called_the_same_by_a_listing_and_when_the_file_is_opened(box: Box) -> None:
    box.drop("users.csv", drop_scene.users("a", 3))
    box.drop("sub folder/users [1].csv", drop_scene.users("b", 5_000))
    with box.storage() as storage:
        listed = {entry.key: entry.version for entry in storage.entries()}
    assert len(listed) == 2
    with box.storage() as storage:
        assert {key: storage.stat(key).version for key in listed} == listed
        assert all(storage.read(key, version=version) for key, version in listed.items())


@pytest.mark.parametrize("box", BOXES + OTHER_FTP, indirect=True)
def test_files_that_stay_as_they_were_taken_are_imported(drops: Drops) -> None:
    drops.box.drop("users-a.csv", drop_scene.users("a", 2))
    drops.box.drop("users-b.csv", drop_scene.users("b", 1))
    job = drops.taken()
    assert all(file.requested.version for file in drops.files(job))
    done = drops.work(job)
    assert done.status is JobState.COMPLETED, (done.last_error, done.result)
    assert drops.users() == ["reader0@a.example.org", "reader0@b.example.org", "reader1@a.example.org"]
    assert drops.clear_up() == 2
    assert [status for _, status, _ in drops.ends() if status != "WATCHED"] == ["DONE", "DONE"]


@pytest.mark.parametrize("box", BOXES, indirect=True)
def test_a_file_that_is_replaced_before_it_is_landed_is_not_imported_and_its_newer_version_is(drops: Drops) -> None:
    drops.box.drop("users-a.csv", drop_scene.users("a", 2))
    drops.box.drop("users-b.csv", drop_scene.users("b", 1))
    drops.box.drop("users-c.csv", drop_scene.users("c", 1))
    first = drops.taken()
    newer = drop_scene.users("a", 3)
    drops.box.drop("users-a.csv", newer)
    with drops.box.storage() as storage:
        storage.delete("users-c.csv")
    assert drops.look().taken == 0, "its earlier version is being imported"
    first = drops.work(first)
    assert first.status is JobState.COMPLETED_WITH_ERRORS, first.last_error
    assert drops.users() == ["reader0@b.example.org"]
    assert drops.clear_up() == 3
    assert drops.ends()[:3] == [
        ("users-a.csv", "FAILED", REPLACED),
        ("users-b.csv", "DONE", None),
        ("users-c.csv", "FAILED", REMOVED),
    ]
    with drops.box.storage() as storage:
        assert storage.read("users-a.csv") == newer, "it is left where it lies"
    second = drops.work(drops.taken())
    assert second.status is JobState.COMPLETED, "none of its records was imported before"
    assert drops.clear_up() == 1
    assert drops.ends()[3:] == [("users-a.csv", "DONE", None)]
    assert len(drops.users()) == 4


@pytest.mark.parametrize("box", ["folder"], indirect=True)
def test_an_import_of_nothing_but_replaced_files_fails_and_says_so(drops: Drops) -> None:
    drops.box.drop("users.csv", drop_scene.users("a", 2))
    job = drops.taken()
    drops.box.drop("users.csv", drop_scene.users("a", 3))
    assert drops.work(job).status is JobState.FAILED
    assert drops.look().taken == 0
    assert drops.clear_up() == 1
    assert drops.ends()[0] == ("users.csv", "FAILED", REPLACED)
    assert drops.work(drops.taken()).status is JobState.COMPLETED


@pytest.mark.parametrize("box", ["folder"], indirect=True)
def test_a_job_that_names_no_versions_takes_what_lies_there(drops: Drops, engine: Engine) -> None:
    drops.box.drop("users.csv", drop_scene.users("a", 2))
    job = drops.taken()
    with transaction(engine) as connection:
        connection.execute("UPDATE import_file SET wanted_version = NULL")
        job = jobs.find(connection, job.job_key)
    drops.box.drop("users.csv", drop_scene.users("a", 3))
    assert drops.work(job).status is JobState.COMPLETED
    assert len(drops.users()) == 3


@pytest.mark.parametrize("box", ["folder"], indirect=True)
def test_what_was_landed_before_a_crash_stays_good(drops: Drops, engine: Engine) -> None:
    drops.box.drop("users-a.csv", drop_scene.users("a", 2))
    drops.box.drop("users-b.csv", drop_scene.users("b", 1))
    job = drops.taken()

    def die() -> None:
        raise Unavailable("the process is gone")

    with listening(engine, before(queries.text("jobs", "seal_job"), die)) as heard, pytest.raises(Unavailable):
        planning.plan(heard, job)
    drops.box.drop("users-a.csv", drop_scene.users("a", 3))
    done = drops.work(job)
    assert done.status is JobState.COMPLETED, (done.last_error, done.result)
    assert len(drops.users()) == 3


@pytest.mark.parametrize("box", ["folder"], indirect=True)
def test_a_request_without_versions_is_recognised_as_ever(drops: Drops) -> None:
    drops.box.drop("users.csv", drop_scene.users("a", 2))
    job = drops.taken()
    files = tuple(file.requested for file in drops.files(job))
    request = replace(ImportRequest.from_params(job.params), files=files)
    plain = replace(request, files=tuple(replace(file, version=None) for file in files))
    assert plain.identity()["files"] == [
        {"source": file.source, "size": file.size, "known_sha256": []} for file in files
    ]
    assert replace(ImportRequest.from_params(request.as_params()), files=files) == request
