"""The supervisor starts the programs, keeps them running, and leaves no process behind."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from bulk_pipelines import resources, settings
from bulk_pipelines.database import address, folders, logs, ready
from bulk_pipelines.database.embedded.locks import taken
from bulk_pipelines.drops import probing, sources
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.errors import Conflict, InvalidInput, Unavailable
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.up import home, processes
from bulk_pipelines.up.programs import Program, found_at, programs

GRACE = 15
"""How many seconds running work has to stop by itself."""

READY = 180
"""How many seconds a program has to answer after its start."""

PAUSE = 0.2


class Signals:
    """How often this process was asked to stop."""

    def __init__(self) -> None:
        self.count = 0
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, self.receive)

    def receive(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def stop(self) -> bool:
        return self.count > 0

    def hurry(self) -> bool:
        """Whether the process was asked more than once, so that running work is not waited for."""
        return self.count > 1


def run(chosen: Settings, say: Callable[[str], None]) -> None:
    """Run everything until a signal asks to stop; a second signal does not wait for running work."""
    signals = Signals()
    with only_one(folders.ready(chosen.home) / "up.lock"):
        mine = processes.identity(chosen.home)
        if processes.marked(mine):
            say("Ending what an earlier run left behind")
            processes.end(mine, GRACE, signals.hurry)
        refuse_taken_port("BULK_UI_PORT", chosen.ui_port)
        refuse_taken_port("BULK_API_PORT", chosen.api_port)
        dropped = sources.load(chosen.drops_file, [each.name for each in resources.known()], chosen.home / "inbox")
        threading.Thread(target=tell_unreachable, args=(dropped, chosen, say), daemon=True).start()
        with address.held(chosen) as url, guarded(chosen.home):
            ready.migrated(chosen, url)
            place = home.prepare(chosen, url)
            home.write_workspace(place)
            variables = home.environment(chosen, url) | processes.mark(chosen.home)
            try:
                processes_of = settings.environment(**variables)
                running = programs(place, chosen.ui_port, (chosen.api_host, chosen.api_port), processes_of)
                supervise(running, chosen, signals, say)
            finally:
                say("Stopping")
                processes.end(mine, GRACE, signals.hurry)
    say("Everything has stopped")


def tell_unreachable(dropped: list[DropSource], chosen: Settings, say: Callable[[str], None]) -> None:
    """Say which sources of dropped files cannot be looked at. That is no reason not to start, because they may come
    back."""
    for name, why in probing.problems(dropped, access_of(chosen)).items():
        say(f"Nothing can be taken from the source {name} now: {why}")


def supervise(running: list[Program], chosen: Settings, signals: Signals, say: Callable[[str], None]) -> None:
    """Start the programs one after the other, and keep them and the database running until a signal asks to stop."""
    say(f"Starting Dagster and the API; logs in {running[0].log.parent}")
    for program in running:
        program.start()
        deadline = time.monotonic() + READY
        while not signals.stop() and not program.ready():
            program.ensure_running(endured=0)
            if time.monotonic() > deadline:
                raise Unavailable(f"the {program.name} does not answer (see {program.log})")
            time.sleep(PAUSE)
    if not signals.stop():
        host = found_at(chosen.api_host, chosen.api_port) or chosen.api_host
        only = "" if host == chosen.api_host else f", and not on {chosen.api_host}, because there are no API keys"
        say(f"The console: http://{host}:{chosen.api_port}/ (its API: /docs){only}")
        say(f"Dagster's UI: http://127.0.0.1:{chosen.ui_port}   (Ctrl-C stops everything)")
    while not signals.stop():
        if address.mended(chosen):
            say("The database had ended and was started again")
        for program in running:
            if program.ensure_running():
                say(f"The {program.name} had ended and was started again")
        for log in (*running[0].log.parent.glob("*.log"), address.embedded_folder(chosen) / "postgres" / "server.log"):
            logs.shorten(log)
        time.sleep(PAUSE)


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock of this installation's supervisor. Raises Conflict when another supervisor of the installation
    lives."""
    try:
        file = open(path, "a+", opener=folders.owner_only)  # noqa: SIM115 - closed below
    except OSError as error:
        raise folders.unusable(path, error) from error
    with file:
        if not taken(file.fileno(), fcntl.LOCK_EX):
            file.seek(0)
            raise Conflict(f"`bulk up` runs already for {path.parent}, as process {file.read().strip()}")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Run a guard beside this process, so that nothing keeps running even when this process is killed."""
    guard = subprocess.Popen(
        [sys.executable, "-m", "bulk_pipelines.up.guard", str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    try:
        yield
    finally:
        guard.communicate()


def refuse_taken_port(variable: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InvalidInput(variable, f"port {port} cannot be used ({error.strerror}): name another") from None
