"""Commands of a user whose number has no name, as in many containers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.settings import CHECKOUT

NAMELESS = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount --bind /dev/null /etc/passwd && mount --bind /dev/null /etc/nsswitch.conf && exec "$@"',
    "sh",
]
"""Runs a command where no user has a name."""


def possible() -> bool:
    if shutil.which("unshare") is None:
        return False
    return not subprocess.run([*NAMELESS, "true"], capture_output=True, check=False).returncode


can_be_nameless = pytest.mark.skipif(not possible(), reason="needs root, on Linux")


def bulk(url: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    names = {"LOGNAME", "USER", "LNAME", "USERNAME"}
    variables = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [*NAMELESS, sys.executable, "-m", "bulk_pipelines.cli", *arguments],
        env=variables | {"BULK_DATABASE_URL": url, "BULK_HOME": str(folder / "home")},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


@can_be_nameless
def test_a_job_belongs_to_the_number(engine: Engine, database_url: str, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    index = {"indexKey": "A", "effectiveDate": "20260105", "asofindicator": "CLS"}
    request.write_text(json.dumps({"inputs": [index]}))
    done = bulk(database_url, tmp_path, "distribute", "submit", str(request))
    assert done.returncode == 0, done.stderr
    with transaction(engine) as connection:
        assert connection.execute("SELECT owner, origin FROM job").fetchall() == [(f"uid {os.getuid()}", "cli")]


@can_be_nameless
@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_import_is_worked(engine: Engine, database_url: str, tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("email,name,role\nann@x.org,Ann,reader\n")
    done = bulk(database_url, tmp_path, "import", str(tmp_path / "users.csv"), "--resource", "users")
    assert done.returncode == 0, done.stdout + done.stderr
    with transaction(engine) as connection:
        assert connection.execute("SELECT email FROM users").fetchall() == [("ann@x.org",)]
