"""`bulk up` as a real process in a folder of its own: Dagster's UI, daemon and code server on embedded PostgreSQL."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import psutil

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.binaries import embedded
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.up import processes
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.processes import free_port

SLOW = 120.0

DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy } } } }"


@dataclass(frozen=True)
class Installation:
    """A folder and a port for `bulk up` which nobody else uses."""

    folder: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables besides those that name the folder and the port."""

    api_port: int = field(default_factory=free_port)

    @property
    def variables(self) -> dict[str, str]:
        ports = {"BULK_UI_PORT": str(self.port), "BULK_API_PORT": str(self.api_port)}
        return {"BULK_HOME": str(self.folder), **ports, **self.settings}

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}

    @property
    def server(self) -> Server:
        return Server(self.folder / "database" / "postgres", embedded())

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "bulk_pipelines.cli", "up"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def bulk(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command of the command line in this installation."""
        command = [sys.executable, "-m", "bulk_pipelines.cli", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600, check=False)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        answer = httpx.post(
            f"http://127.0.0.1:{self.port}/graphql", json={"query": query, "variables": variables}, timeout=30
        )
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()["data"]
        return found

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows that the installation's database answers to a query."""
        with pool.single(self.server.url()) as connection:
            return connection.execute(query, values).fetchall()

    def left(self) -> list[psutil.Process]:
        """Return every process that has to do with this installation and still runs."""
        found = []
        for process in psutil.process_iter():
            try:
                mine = str(self.folder) in " ".join(process.cmdline()) or self.folder in Path(process.cwd()).parents
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        marked = processes.marked(processes.identity(self.folder)) if self.folder.exists() else []
        return [*found, *marked]

    def all_daemons_healthy(self) -> bool:
        statuses = self.ask(DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"]
        return bool(statuses) and all(each["healthy"] for each in statuses)


@contextmanager
def made(**settings: str) -> Iterator[Installation]:
    """Provide a new installation with these settings, which is not started yet; nothing of it is left afterwards."""
    with TemporaryDirectory(prefix="bulk-up-", dir="/tmp") as name:
        place = Installation(Path(name) / "home", free_port(), settings)
        try:
            yield place
        finally:
            for process in place.left():
                process.kill()
            shutil.rmtree(place.folder, ignore_errors=True)


@contextmanager
def started(installation: Installation) -> Iterator[subprocess.Popen[str]]:
    """Provide the process of `bulk up` once it has said that its UI is there, and kill it afterwards if it still
    runs."""
    process = installation.start()
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Dagster's UI" in line:
                break
        assert process.poll() is None, "".join(said)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@contextmanager
def running(**settings: str) -> Iterator[Installation]:
    """Provide a new installation that is up, with every daemon at work, and stop it in good order at the end."""
    with made(**settings) as installation, started(installation) as process:
        until(installation.all_daemons_healthy, "every daemon is healthy", SLOW)
        yield installation
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SLOW)
