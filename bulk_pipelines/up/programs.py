"""The processes of an installation: Dagster's code server, web server and daemon, and the HTTP API."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bulk_pipelines.database import folders, logs
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.up.home import LOCATION, Home

LOOPBACK = "127.0.0.1"
MODULE = "bulk_pipelines.definitions"
STEADY = 30
"""How many seconds a program must have lived for its end to count as an accident, and not as a mistake in the
set-up."""

EARLY_ENDS = 4
"""How many ends in a row, each within STEADY seconds, are tolerated: accidents can come together."""


@dataclass
class Program:
    """One program that is kept running, with its output in a log file."""

    name: str
    command: list[str]
    log: Path
    environment: Mapping[str, str]
    ready: Callable[[], bool]
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started: float = field(default=0, init=False)
    early_ends: int = field(default=0, init=False)

    def start(self) -> None:
        logs.shorten(self.log)
        with open(self.log, "ab", opener=folders.owner_only) as output:
            # The program gets a session of its own, because a Ctrl-C at the terminal is for the supervisor alone.
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
                umask=folders.UMASK,
            )
        self.started = time.monotonic()

    def ensure_running(self, endured: int = EARLY_ENDS) -> bool:
        """Start the program again if it has ended, and return whether that was needed. A program that keeps ending is
        an error."""
        if self.process is None or self.process.poll() is None:
            return False
        self.early_ends = self.early_ends + 1 if time.monotonic() - self.started < STEADY else 0
        if self.early_ends > endured:
            raise Unavailable(
                f"the {self.name} ended with code {self.process.returncode}: {self.last_words()} (see {self.log})"
            )
        self.start()
        return True

    def last_words(self) -> str:
        return logs.error_in(logs.end_of(self.log)) or "it said nothing"


def programs(home: Home, port: int, api: tuple[str, int], environment: Mapping[str, str]) -> list[Program]:
    """Return the programs of this installation, in the order in which to start them."""
    workspace = ["--workspace", str(home.workspace)]
    commands = {
        "code server": [
            *("-m", "dagster", "code-server", "start", "--socket", str(home.socket)),
            *("--module-name", MODULE, "--location-name", LOCATION, "--working-directory", str(CHECKOUT)),
        ],
        "web server": ["-m", "dagster_webserver", "--host", "127.0.0.1", "--port", str(port), *workspace],
        "daemon": ["-m", "dagster._daemon", "run", *workspace],
        "API": ["-m", "bulk_pipelines.cli", "api"],
    }
    ready: dict[str, Callable[[], bool]] = {
        "code server": lambda: listens(home.socket),
        "web server": lambda: answers(f"http://127.0.0.1:{port}/server_info"),
        "daemon": lambda: True,
        "API": lambda: found_at(*api) is not None,
    }
    return [
        Program(
            name,
            [sys.executable, *command],
            home.logs / f"{name.lower().replace(' ', '-')}.log",
            environment,
            ready[name],
        )
        for name, command in commands.items()
    ]


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def found_at(host: str, port: int) -> str | None:
    """Return where the API listens: at the address that is set, or on loopback as long as there are no keys. None: it
    does not answer yet."""
    return next((each for each in (host, LOOPBACK) if accepts(each, port)), None)


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:  # noqa: S310 - an address of our own
            return bool(answer.status == 200)
    except OSError:
        return False
