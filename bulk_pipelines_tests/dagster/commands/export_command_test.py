"""`bulk export` as a person uses it: a process of its own, its run in Dagster."""

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.export_files import exporting, insert_users, names_in, watching
from bulk_pipelines_tests.scenes.exports import slow_down, speed_up
from bulk_pipelines_tests.scenes.person import Person
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import Place


@pytest.fixture
def person(tmp_path: Path, database_url: str) -> Person:
    return Person(tmp_path, database_url)


@pytest.mark.long
def test_to_a_folder_to_a_file_and_again(person: Person, engine: Engine) -> None:
    insert_users(engine, 400)
    asked = ["export", "users", "--format", "parquet", "--fields", "email,role", "--where", "role=admin"]
    asked += ["--order", "-email", "--compression", "gzip", "--to", "out", "--idempotency-key", "k"]
    said = person.says(*asked)
    key = said.split()[1]
    path = person.folder / "out" / f"users-{key}.parquet"
    assert f"{key} COMPLETED: 100 rows, {path.stat().st_size:,} bytes" in said
    assert str(path) in said
    assert hashlib.sha256(path.read_bytes()).hexdigest() in said
    table = pq.read_table(path)
    assert table.column_names == ["email", "role"]
    emails = [str(email) for email in table["email"].to_pylist()]
    assert emails == sorted(emails, reverse=True)

    again = person.says(*asked)
    assert f"export {key}, submitted before" in again
    assert str(path) in again
    assert names_in(person.folder / "out") == [path.name]
    other = person.says("export", "users", "--idempotency-key", "k", code=1)
    assert f"was used for another request, job {key}" in other

    (person.folder / "named").mkdir()
    person.says("export", "users", "--to", "named/all.csv")
    assert len((person.folder / "named" / "all.csv").read_text().splitlines()) == 401


@pytest.mark.long
def test_to_s3(person: Person, engine: Engine, s3_bucket: Place) -> None:
    insert_users(engine, 10)
    s3 = s3_bucket.access.s3
    person.environment |= {
        "BULK_S3_ENDPOINT": s3.endpoint,
        "BULK_S3_ACCESS_KEY_ID": s3.access_key_id,
        "BULK_S3_SECRET_ACCESS_KEY": s3.secret_access_key,
    }
    said = person.says("export", "users", "--format", "ndjson", "--to", f"{s3_bucket.url}/exports")
    assert f"{s3_bucket.url}/exports/users-{said.split()[1]}.ndjson" in said
    assert "10 rows" in said


@pytest.mark.long
def test_ctrl_c_asks_to_cancel_and_nothing_remains(person: Person, engine: Engine) -> None:
    insert_users(engine, 40_000)
    with watching(engine) as connection:
        slow_down(connection)
        process = person.start("export", "users", "--to", "out")
        until(lambda: exporting(connection) > 0, "rows are being read", 60)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1, output + errors
        assert "CANCELLED" in output
        assert exporting(connection) == 0
    assert names_in(person.folder / "out") == []


@pytest.mark.long
def test_the_process_at_work_is_killed_and_the_retry_publishes_one_file(person: Person, engine: Engine) -> None:
    """The process is killed by kill -9, and whatever works for it ends with it; the next run takes the job up."""
    insert_users(engine, 20_000)
    with watching(engine) as connection:
        slow_down(connection)
        process = person.start("export", "users", "--to", "out")
        until(lambda: exporting(connection) > 0, "rows are being read", 60)
        until(lambda: names_in(person.folder / "out") != [], "it is writing", 60)
        (worker,) = [
            each
            for each in psutil.Process(process.pid).children()
            if "bulk_pipelines.up.with_dagster" in each.cmdline()
        ]
        worker.kill()
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1, output
        assert "has died" in errors
        assert all(name.endswith(".part") for name in names_in(person.folder / "out")), "nothing is published"
        speed_up(connection)
        key = output.split()[1]
        run = subprocess.run(
            [sys.executable, "-m", "bulk_pipelines.up.with_dagster", key],
            env=worker_environment(person),
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert run.returncode == 0, run.stderr[-3_000:]
    assert names_in(person.folder / "out") == [f"users-{key}.csv"]
    assert len((person.folder / "out" / f"users-{key}.csv").read_bytes().splitlines()) == 20_001


def worker_environment(person: Person) -> dict[str, str]:
    """What the command line gives to the process that works a job."""
    from bulk_pipelines import settings
    from bulk_pipelines.up import home

    chosen = settings.load(person.environment)
    return person.environment | home.environment(chosen, chosen.database_url)


@pytest.mark.long
def test_mistakes_are_one_line(person: Person) -> None:
    for arguments, message in [
        (["shoes"], "resource: there is no resource 'shoes'"),
        (["users", "--format", "pdf"], "format: there is no 'pdf'; there are csv, ndjson, json, parquet, xlsx"),
        (["users", "--fields", "id,shoe"], "shoe: users have no such field"),
        (["users", "--where", "shoe=42"], "shoe: users have no such field"),
        (["users", "--where", "role"], "where: 'role' is no condition"),
        (["users", "--where", "role>>admin"], "role: there is no operator '>>'"),
        (["users", "--where", "active=maybe"], "active: 'maybe' is not a boolean"),
        (["users", "--where", "created_at>soon"], "created_at: 'soon' is not a timestamp"),
        (["users", "--order", "shoe"], "shoe: users have no such field"),
        (["users", "--compression", "rar"], "compression: there is no 'rar'"),
        (["users", "--format", "xlsx", "--compression", "gzip"], "compression: an xlsx file is compressed already"),
        (["users", "--format", "json", "--escape-formulas"], "escape_formulas: is for csv"),
        (["users", "--to", "https://example.org/x"], "to: https://example.org/x is a web address"),
        (["users", "--to", "users.parquet"], "to: users.parquet does not end in .csv"),
    ]:
        said = person.says("export", *arguments, code=1)
        assert message in said
        assert "Traceback" not in said
        assert len(said.splitlines()) == 1
