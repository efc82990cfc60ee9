"""Log files that do not grow for ever, and the line of a program's output that says what went wrong."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bulk_pipelines.database import logs
from bulk_pipelines_tests.scenes.waiting import until

FROM_SQLALCHEMY = """Traceback (most recent call last):
  File "x.py", line 1, in <module>
psycopg.errors.UndefinedTable: nope

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "y.py", line 2, in <module>
    raise it
sqlalchemy.exc.ProgrammingError: (UndefinedTable) relation "runs" does not exist
LINE 1: SELECT
               ^

[SQL: SELECT 1]
(Background on this error at: https://sqlalche.me/e/20/f405)
"""


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("", ""),
        ("one\n\ntwo\n\n", "two"),
        ("initdb: error: directory exists\ninitdb: removing contents\n", "initdb: error: directory exists"),
        ("LOG: starting\nFATAL:  lock file is empty\nLOG: shut down\n", "FATAL:  lock file is empty"),
        (
            FROM_SQLALCHEMY,
            'sqlalchemy.exc.ProgrammingError: (UndefinedTable) relation "runs" does not exist',
        ),
        ("Traceback (most recent call last):\n", "Traceback (most recent call last):"),
    ],
)
def test_what_went_wrong_is_found(said: str, error: str) -> None:
    assert logs.error_in(said) == error


def test_a_traceback_of_this_very_python() -> None:
    script = "def f():\n    raise ValueError('two\\nlines')\nf()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert logs.error_in(done.stderr) == "ValueError: two"


def test_a_log_is_shortened_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONGEST", 100_000)
    log = tmp_path / "daemon.log"
    with log.open("ab") as output:
        writer = subprocess.Popen(["sh", "-c", "while :; do echo a line of the daemon; done"], stdout=output)
    try:
        for _ in range(3):
            until(lambda: log.stat().st_size > logs.LONGEST, "the log is long")
            logs.shorten(log)
            assert (tmp_path / "daemon.log.old").stat().st_size >= logs.LONGEST
        until(lambda: log.stat().st_size > 1_000, "the writer goes on")
    finally:
        writer.kill()
        writer.wait()
    assert b"\0" not in log.read_bytes(), "the writer goes on at the new end"
    assert set(log.read_text().splitlines()[1:-1]) == {"a line of the daemon"}
    assert stat.S_IMODE((tmp_path / "daemon.log.old").stat().st_mode) == 0o600


def test_a_short_log_and_none_stay_as_they_are(tmp_path: Path) -> None:
    logs.shorten(tmp_path / "none.log")
    (tmp_path / "short.log").write_text("x")
    logs.shorten(tmp_path / "short.log")
    assert os.listdir(tmp_path) == ["short.log"]  # noqa: PTH208


def test_the_end_of_a_long_log(tmp_path: Path) -> None:
    assert logs.end_of(tmp_path / "none.log") == ""
    log = tmp_path / "long.log"
    log.write_bytes(b"an old error: not this one\n" + b"x" * 50_000 + b"\n\xff the end\n")
    assert logs.end_of(log).endswith("the end")
    assert "old" not in logs.end_of(log)
