"""`bulk export` to standard output, and to places that are not there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.export_files import exporting, insert_users, names_in, watching
from bulk_pipelines_tests.waiting import until


class Shell:
    """A person in an empty folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.environment = {**os.environ, "BULK_HOME": str(folder / "home"), "BULK_DATABASE_URL": url}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "bulk_pipelines.cli", "export", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def shell(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, database_url)


def jobs_in(engine: Engine) -> int:
    with watching(engine) as connection:
        row = connection.execute("SELECT count(*) FROM job").fetchone()
    return int(row[0]) if row else 0


def test_to_standard_output(shell: Shell, engine: Engine) -> None:
    insert_users(engine, 400)
    asked = ["users", "--fields", "email,role", "--where", "role=admin", "--order", "email", "--to", "-"]
    done = shell.run(*asked, "--format", "ndjson")
    assert (done.returncode, done.stderr) == (0, b"")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 100
    assert {row["role"] for row in rows} == {"admin"}
    packed = shell.run(*asked, "--format", "parquet")
    assert packed.returncode == 0
    assert (packed.stdout[:4], packed.stdout[-4:]) == (b"PAR1", b"PAR1")
    assert names_in(shell.folder) == []
    assert jobs_in(engine) == 0


def test_who_stops_listening_ends_the_query(shell: Shell, engine: Engine) -> None:
    insert_users(engine, 200_000)
    process = subprocess.Popen(
        shell.command("users", "--to", "-"),
        env=shell.environment,
        cwd=shell.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"id,")
    process.stdout.close()
    assert process.wait(60) != 0
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    with watching(engine) as connection:
        until(lambda: exporting(connection) == 0, "the query has ended", 30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "none/dir/x.csv"], "to: the folder {here}/none/dir does not exist: make it, or name another one"),
        (["--to", "none/x.csv"], "to: the folder {here}/none does not exist"),
        (["--to", "none/dir/"], "to: the folder {here}/none does not exist"),
        (["--to", "file://{here}/none/x.csv"], "to: the folder {here}/none does not exist"),
        (["--to", "plain/x.csv"], "to: the folder {here}/plain is not a folder"),
        (["--to", "plain"], "to: {here}/plain is a file, and not named as one of this format is; name a folder"),
        (["--to", "-", "--idempotency-key", "k"], "to: an export to standard output is no job"),
        (["--to", "-", "--priority", "5"], "to: an export to standard output is no job"),
        (["--to", "-", "--format", "pdf"], "format: there is no 'pdf'"),
    ],
)
def test_a_place_that_is_not_there_is_one_line_and_nothing_is_made(
    shell: Shell, engine: Engine, arguments: list[str], message: str
) -> None:
    (shell.folder / "plain").write_text("a file")
    here = str(shell.folder)
    done = shell.run("users", *(each.replace("{here}", here) for each in arguments))
    assert done.returncode == 1
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert message.replace("{here}", here) in line
    assert names_in(shell.folder) == ["plain"]
    assert jobs_in(engine) == 0
