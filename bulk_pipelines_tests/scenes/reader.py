"""Somebody who reads a page of the docs, and does what it says: each block of commands is a script of its own."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bulk_pipelines.settings import CHECKOUT

BLOCK = re.compile(r"^```(sh|sql|text)(?: (\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST_KEY = 777
KEY = re.compile(r"J20260110_000(\d{3})")
BULK = """\
#!/bin/bash
ask() {{ word=$({programs}/psql -qAtX "$READERS_DATABASE_URL" -c "SELECT $1 LIMIT 1"); }}
words=()
for word do
    case $word in
        J20260110_000*) ask "job_key FROM {jobs} OFFSET ${{word: -3}} - {first}" ;;
        JOB) ask "job_key FROM bulk.job ORDER BY job_id DESC" ;;
        4711) ask "item_id FROM bulk.job_item WHERE status = 'DLQ' ORDER BY item_id DESC" ;;
        sub_1a2b3c4d5e6f) ask "subscription_id FROM bulk.subscription ORDER BY created_at DESC" ;;
    esac
    words+=("$word")
done
exec {python} -m bulk_pipelines.cli "${{words[@]}}"
"""
"""`bulk`, for which the names on a page stand for what is there when it is called: the first job of the page is
J20260110_000777, the second one J20260110_000778, and the newest one JOB."""


@dataclass
class Reader:
    folder: Path
    """Where the commands are given."""
    url: str
    home: Path
    programs: Path
    """The folder of PostgreSQL's programs."""
    settings: dict[str, str] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)
    """What stands on the page, and what is meant here."""
    said: str = ""
    before: int = 0
    """The last job before this reader began."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        with_rows = self.asks("SELECT to_regclass('bulk.job')")
        self.before = int(self.asks("SELECT coalesce(max(job_id), 0) FROM bulk.job") or 0) if with_rows else 0
        for folder in (self.folder / "bin", self.folder / ".venv" / "bin"):
            folder.mkdir(parents=True)
            bulk = BULK.format(programs=self.programs, jobs=self.jobs, first=FIRST_KEY, python=sys.executable)
            (folder / "bulk").write_text(bulk)
            (folder / "bulk").chmod(0o755)

    @property
    def jobs(self) -> str:
        return f"bulk.job WHERE job_id > {self.before} ORDER BY job_id"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "BULK_DATABASE_URL": self.url,
            "READERS_DATABASE_URL": self.url,
            "BULK_HOME": str(self.home),
            "PATH": f"{self.folder / 'bin'}:{self.programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
            **self.settings,
        }

    def asks(self, query: str) -> str:
        """Return the first value that the database answers to a query."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
        return str(row[0]) if row and row[0] is not None else ""

    def runs(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode(), prepare=False)

    def key(self, number: int) -> str:
        """Return the key of a job that this reader has made."""
        return self.asks(f"SELECT job_key FROM {self.jobs} OFFSET {number} LIMIT 1")

    def meant(self, text: str) -> str:
        """Put the names of this installation into the place of those on the page."""
        for name, meant in self.instead.items():
            text = text.replace(name, meant)
        return text

    def does(self, script: str, code: int = 0) -> str:
        """Run a script, and return what it prints."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self.meant(script)],
            cwd=self.folder,
            env=self.environment,
            input="y\n" * 9,  # to whoever asks whether that is meant
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{script}\n{done.stdout}\n{done.stderr}\n{self.log()}"
        self.said = done.stdout
        return self.said

    def log(self) -> str:
        """Return the end of what the process wrote that worked the last job."""
        found = self.home / "logs" / "worked-here.log"
        lines = found.read_text().splitlines() if found.exists() else []
        return "\n".join(line for line in lines[-100:] if " - DEBUG - " not in line)

    def sees(self, expected: str) -> None:
        expected = KEY.sub(lambda found: self.key(int(found[1]) - FIRST_KEY), expected)
        for line in expected.strip().splitlines():
            assert line.strip() in self.said, f"{line!r} is not in:\n{self.said}"

    def reads(self, page: Path, left_out: tuple[str, ...] = ()) -> dict[str, str]:
        """Do what the page says, and return what each block of commands has printed."""
        said = {}
        for kind, code, text in BLOCK.findall(page.read_text()):
            if text.startswith(left_out):
                continue
            if kind == "sql":
                self.runs(self.meant(text))
            elif kind == "sh":
                said[text] = self.does(text, int(code or 0))
            else:
                self.sees(text)
        return said
