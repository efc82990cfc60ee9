"""The sizes that the settings allow are the sizes of an import's batches."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.imports.kind import kinds_of
from bulk_pipelines.imports.plan import planning
from bulk_pipelines_tests.scenes.whole_imports import begun, submitted, worked

pytestmark = pytest.mark.usefixtures("home")


def batches(engine: Engine, job: Job, persisted: bool) -> list[int]:
    """Return how many items were persisted, or rows loaded, in each batch."""
    query = "SELECT row_count FROM batch_step WHERE job_id = %s AND (worker = 'persist') = %s ORDER BY step"
    with transaction(engine) as connection:
        return [count for (count,) in connection.execute(query, [job.job_id, persisted])]


def imported(engine: Engine, file: Path) -> Job:
    job = begun(engine, submitted(engine, "users", [file]))
    return worked(engine, job, kinds_of(limits_of(settings.current().engine)))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is cut into ten ranges and a little one."""
    lines = [f"u{n:06}@example.org,Name,reader\n" for n in range(20_000)]
    made = tmp_path / "users.csv"
    made.write_text("email,name,role\n" + "".join(lines))
    monkeypatch.setattr(planning, "RANGE_BYTES", made.stat().st_size // 2)
    return made


def test_the_rows_of_a_batch(engine: Engine, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_LOAD_MIN_ROWS", "700")
    monkeypatch.setenv("BULK_LOAD_MAX_ROWS", "700")
    found = batches(engine, imported(engine, file), persisted=False)
    assert max(found) == 700
    assert sum(found) == 20_000


def test_the_bytes_of_a_batch(engine: Engine, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_LOAD_MAX_BATCH_BYTES", "65536")
    found = batches(engine, imported(engine, file), persisted=False)
    assert max(found) <= 65_536 // len("u000000@example.org,Name,reader\n")
    assert sum(found) == 20_000


def test_the_items_that_are_persisted_at_once(engine: Engine, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "RANGE_BYTES", file.stat().st_size // 20)
    monkeypatch.setenv("BULK_INGEST_MIN_ROWS", "1")
    monkeypatch.setenv("BULK_INGEST_MAX_ROWS", "3")
    job = begun(engine, submitted(engine, "users", [file]))
    found = batches(engine, job, persisted=True)
    assert max(found) == 3
    assert sum(found) == job.total_items >= 20
