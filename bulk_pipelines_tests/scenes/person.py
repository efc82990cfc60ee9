"""A person at a terminal: each command is a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


class Person:
    def __init__(self, home: Path, url: str) -> None:
        self.environment = {**os.environ, "BULK_HOME": str(home), "BULK_DATABASE_URL": url}
        self.folder = home / "work"
        self.folder.mkdir()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines.cli", *arguments],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def says(self, *arguments: str, code: int = 0) -> str:
        """Return what a command prints. When it is to fail, that is its errors, too."""
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == code, output + errors
        return output if code == 0 else output + errors
