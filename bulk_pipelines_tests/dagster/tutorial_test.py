"""The tutorial, as it stands: every command on it runs, in its order, and says what the page says that it does."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bulk_pipelines.settings import CHECKOUT

pytestmark = pytest.mark.long

BLOCK = re.compile(r"^```(sh|text)(?: (\d+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIRST_KEY = 777
"""The page calls the first job J20260110_000777, the second one J20260110_000778."""


class Reader:
    """Somebody who does what the page says."""

    def __init__(self, folder: Path, url: str, binaries: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        bulk = folder / "bin" / "bulk"
        bulk.write_text(f'#!/bin/sh\nexec {sys.executable} -m bulk_pipelines.cli "$@"\n')
        bulk.chmod(0o755)
        self.environment = os.environ | {
            "BULK_DATABASE_URL": url,
            "BULK_HOME": str(folder / "home"),
            "PATH": f"{folder / 'bin'}:{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
        }
        self.keys: list[str] = []
        self.said = ""

    def meant(self, text: str) -> str:
        """Put the keys of this run into the place of those on the page."""
        return re.sub(r"J20260110_(\d{6})", lambda found: self.keys[int(found[1]) - FIRST_KEY], text)

    def does(self, script: str, code: int) -> None:
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        done = subprocess.run(
            ["bash", "-e", "-c", self.meant(script)], cwd=work, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == code, f"{script}\n{done.stdout}\n{done.stderr}"
        self.said = done.stdout
        self.keys += [key for key in re.findall(r"^import (J\d+_\d+)", self.said, re.MULTILINE) if key not in self.keys]

    def sees(self, expected: str) -> None:
        for line in self.meant(expected).strip().splitlines():
            assert line.strip() in self.said, f"{line!r} is not in:\n{self.said}"


def test_every_command_does_what_the_page_says(tmp_path: Path, empty_database_url: str, binaries: Path) -> None:
    reader = Reader(tmp_path, empty_database_url, binaries)
    blocks = BLOCK.findall((CHECKOUT / "docs" / "tutorial.md").read_text())
    assert len(blocks) > 15
    for kind, code, text in blocks:
        if kind == "sh":
            reader.does(text, int(code or 0))
        else:
            reader.sees(text)
