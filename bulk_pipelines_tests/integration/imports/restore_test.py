"""A backup of the database in the middle of an import: restored elsewhere, the import goes on, and each record is
loaded once."""

import subprocess
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.imports.work import Read
from bulk_pipelines_tests.scenes.whole_imports import batches_of, begun, kinds_by, refreshed, submitted, worked

ROWS = 3_000


class PowerCut(BaseException):
    """The machine is off."""


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_a_dump_in_the_middle_of_an_import(
    engine: Engine,
    empty_database_url: str,
    binaries: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    source = tmp_path / "users.csv"
    source.write_text("email,name,role\n" + "".join(f"u{number}@x.org,N,reader\n" for number in range(ROWS)))
    job = begun(engine, submitted(engine, "users", [source], mode=mode))
    blocks: list[Read] = []

    def cut_off(read: Read) -> None:
        if len(blocks) == 4:
            raise PowerCut
        blocks.append(read)

    with pytest.raises(PowerCut), Worker(engine, kinds_by(batches_of(250), cut_off), job) as worker:
        drain(worker)
    half = refreshed(engine, job)
    assert half.status is JobState.RUNNING
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    dump = tmp_path / "bulk.dump"
    subprocess.run([binaries / "pg_dump", "--format", "custom", "--file", dump, url], check=True)
    subprocess.run([binaries / "pg_restore", "--no-owner", "--dbname", empty_database_url, dump], check=True)

    source.unlink()
    restored = pool.connect(empty_database_url)
    try:
        with transaction(restored) as connection:
            connection.execute("UPDATE job_item SET lease_until = now() WHERE lease_until IS NOT NULL")
        ended = worked(restored, refreshed(restored, job))
        assert ended.status is JobState.COMPLETED, ended.last_error
        assert ended.result is not None
        assert (ended.result["read"], ended.result["loaded"]) == (ROWS, ROWS)
        with transaction(restored) as connection:
            rows = connection.execute("SELECT count(*), count(DISTINCT email) FROM users").fetchone()
        assert rows == (ROWS, ROWS)
    finally:
        restored.dispose()
