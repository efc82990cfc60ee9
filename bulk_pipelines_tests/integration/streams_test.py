"""Commands whose standard streams somebody has closed, as some ways to start a program do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def bulk(words: str, database_url: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m bulk_pipelines.cli {words}"],
        env={**os.environ, "BULK_DATABASE_URL": database_url, "BULK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_command_answers_with_streams_closed(closed: str, database_url: str, tmp_path: Path) -> None:
    done = bulk(f"jobs {closed}", database_url, tmp_path)
    assert (done.returncode, done.stdout) == (0, "no jobs\n"), done.stderr


def test_an_export_says_that_its_output_is_closed(database_url: str, tmp_path: Path) -> None:
    done = bulk("export users --to - >&-", database_url, tmp_path)
    assert (done.returncode, done.stderr) == (1, "Error: to: the standard output is closed\n")


def test_a_mistake_has_its_exit_code_with_all_streams_closed(database_url: str, tmp_path: Path) -> None:
    done = bulk("job show J20990101_000001 <&- >&- 2>&-", database_url, tmp_path)
    assert done.returncode == 1
    assert not (tmp_path / "logs" / "errors.log").exists()


def test_an_output_that_is_full_fails_the_command(database_url: str, tmp_path: Path) -> None:
    done = bulk("jobs > /dev/full", database_url, tmp_path)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
