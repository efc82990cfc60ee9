"""Ranges are read of the file that was landed, or not at all: in a folder of this machine and in a bucket alike."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Permanent
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.land import landing
from bulk_pipelines.imports.plan.land.landed_file import LocalFile
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.errors import SourceChanged
from bulk_pipelines_tests.scenes.import_jobs import Imports, file_of, imports_of
from bulk_pipelines_tests.servers.processes import Place

ROWS = file_of(*((f"a{number}@x.org", "Ada", "reader") for number in range(9)))
OTHERS = ROWS.replace("Ada", "Eve")


@pytest.fixture(params=["folder", "bucket"])
def imports(request: pytest.FixtureRequest, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    """Imports that land their files in a folder, or in a bucket."""
    if request.param == "bucket":
        place: Place = request.getfixturevalue("s3_bucket")
        for name, value in {
            "BULK_LANDING_URL": f"{place.url}/landed",
            "BULK_S3_ENDPOINT": place.access.s3.endpoint,
            "BULK_S3_ACCESS_KEY_ID": place.access.s3.access_key_id,
            "BULK_S3_SECRET_ACCESS_KEY": place.access.s3.secret_access_key,
        }.items():
            monkeypatch.setenv(name, value)
    return imports_of(engine, tmp_path, monkeypatch)


def file_of_job(imports: Imports, job: Job) -> ImportFile:
    with transaction(imports.engine) as connection:
        (file,) = progress.files(connection, job.job_id)
    return file


def write(file: ImportFile, text: str) -> None:
    """Put another object in the place of a landed file."""
    assert file.landed is not None
    storage, key = locations.file(file.landed, access_of(settings.current()))
    with storage:
        storage.put(key, text.encode())


def test_nothing_is_loaded_of_a_landed_file_that_was_replaced(imports: Imports) -> None:
    job = imports.planned(ROWS)
    write(file_of_job(imports, job), OTHERS)
    done = imports.worked(job)
    assert done.status is JobState.FAILED
    assert "is not the one that was landed" in (done.last_error or "")
    assert imports.users() == {}


def test_a_landed_file_that_was_landed_a_second_time_is_as_good(imports: Imports) -> None:
    """A plan that was thought dead may land a file again, and people may bring a folder back from a backup."""
    job = imports.planned(ROWS)
    file = file_of_job(imports, job)
    write(file, ROWS)
    assert imports.worked(job).status is JobState.COMPLETED
    assert len(imports.users()) == 9


def test_a_file_that_was_landed_before_versions_were_noted_is_judged_by_its_content(imports: Imports) -> None:
    jobs = [imports.planned(text) for text in (ROWS, OTHERS.replace("@x", "@y"))]
    with transaction(imports.engine) as connection:
        connection.execute("UPDATE import_file SET landed_version = NULL")
    write(file_of_job(imports, jobs[1]), ROWS.replace("@x", "@z"))
    assert [imports.worked(job).status for job in jobs] == [JobState.COMPLETED, JobState.FAILED]
    assert set(imports.users()) == {f"a{number}@x.org" for number in range(9)}


def test_a_landed_file_that_is_replaced_while_it_is_read(imports: Imports) -> None:
    """A reader goes on in the file that it opened if that lies in a folder; elsewhere it notices the change."""
    file = file_of_job(imports, imports.planned(ROWS))
    with landing.opened(file) as source:
        assert source.read(0, 5) == ROWS[:5].encode()
        write(file, OTHERS)
        if isinstance(source, LocalFile):
            assert source.read(0, source.size) == ROWS.encode()
        else:
            with pytest.raises(SourceChanged):
                source.read(0, source.size)
    with pytest.raises(Permanent, match="is not the one that was landed"), landing.opened(file):
        pass


@pytest.mark.parametrize("imports", ["folder"], indirect=True)
def test_a_landed_file_that_is_written_into_while_it_is_read(imports: Imports) -> None:
    file = file_of_job(imports, imports.planned(ROWS))
    assert file.landed is not None
    with landing.opened(file) as source:
        source.read(0, 5)
        with Path(file.landed).open("r+b") as there:
            there.write(b"EMAIL")
        with pytest.raises(SourceChanged):
            source.read(0, 5)


def test_a_plan_that_was_thought_dead_notes_nothing_of_files_that_have_items(imports: Imports) -> None:
    job = imports.planned(ROWS)
    file = file_of_job(imports, job)
    with transaction(imports.engine) as connection:
        progress.note_files(connection, job.job_id, [replace(file, landed=None, layout=None, note="it was removed")])
    assert file_of_job(imports, job) == file


def test_a_plan_lands_again_what_was_replaced_before_the_items_were_written(
    imports: Imports, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = imports.planned(ROWS)
    with transaction(imports.engine) as connection:
        connection.execute("DELETE FROM job_item")
        connection.execute("UPDATE job SET planned_at = NULL, total_items = 0, pending_items = 0")
    write(file_of_job(imports, job), OTHERS)
    planning.plan(imports.engine, imports.look(job))
    assert imports.worked(job).status is JobState.COMPLETED
    assert set(imports.users().values()) == {"Ada"}
