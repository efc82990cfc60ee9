"""The disk of the landing storage runs full while an import is planned."""

import zipfile
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import runs
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.storage.errors import Full
from bulk_pipelines_tests.integration.storage.local.storage_test import no_file_larger_than
from bulk_pipelines_tests.scenes import whole_imports

ROOM = 100_000


def written(folder: Path, name: str, first: int, count: int) -> Path:
    path = folder / name
    rows = (f"user{number}@example.org,User {number},reader\n" for number in range(first, first + count))
    path.write_text("email,name,role\n" + "".join(rows))
    return path


def packed(folder: Path, *files: Path) -> Path:
    with zipfile.ZipFile(folder / "files.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
    return folder / "files.zip"


@pytest.mark.parametrize("in_archive", [False, True])
def test_no_file_is_left_out_because_our_disk_is_full(
    engine: Engine, home: Path, tmp_path: Path, in_archive: bool
) -> None:
    """The file is good, so an import without it would lose its records; and what was landed takes no room away."""
    sources = [written(tmp_path, "small.csv", 0, 5), written(tmp_path, "large.csv", 100_000, 4_000)]
    job = whole_imports.submitted(engine, "users", [packed(tmp_path, *sources)] if in_archive else sources)
    with transaction(engine) as connection:
        job = runs.take_up(engine, job.job_key, "run-1", by_person=False).job
    with no_file_larger_than(ROOM), pytest.raises(Full, match="landed"):
        planning.plan(engine, job)
    assert [each for each in (home / "landed").rglob("*") if each.is_file()] == []
    with transaction(engine) as connection:
        assert {file.note for file in progress.files(connection, job.job_id)} == {None}
    job = whole_imports.worked(engine, whole_imports.begun(engine, job))
    assert (job.status, (job.result or {})["loaded"]) == ("COMPLETED", 4_005)
