"""What the shell suggests when a person presses the tabulator."""

import os
import subprocess
import sys

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import submission
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.imports.kind import KINDS


def suggested(url: str, *words: str) -> list[str]:
    """Ask as bash does."""
    asked = {"_BULK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("bulk", *words)), "COMP_CWORD": str(len(words))}
    command = [sys.executable, "-c", "from bulk_pipelines.cli import main; main(prog_name='bulk')"]
    variables = os.environ | asked | {"BULK_DATABASE_URL": url}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_jobs_are_suggested(engine: Engine, database_url: str) -> None:
    with transaction(engine) as connection:
        keys = [
            submission.submit(connection, KINDS, Sender("me", "cli").asks("import_users", {})).job.job_key
            for _ in range(2)
        ]
    assert suggested(database_url, "pause", "J") == keys[::-1]
    assert suggested(database_url, "job", "show", keys[0]) == [keys[0]]
    assert suggested(database_url, "job", "show", "nothing") == []


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "nonsense"])
def test_an_error_suggests_nothing(url: str) -> None:
    assert suggested(url, "pause", "J") == []
