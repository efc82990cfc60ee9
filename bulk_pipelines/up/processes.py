"""The processes of one installation. They are found by a mark in their environment, which their children's children
carry too."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import psutil

MARK = "STARTED_BY_BULK_UP"
LOOK_AGAIN = 0.1


def identity(home: Path) -> str:
    """Return what tells this installation from others, by whatever path its folder is reached. The folder must
    exist."""
    found = home.stat()
    return f"{found.st_dev}-{found.st_ino}"


def mark(home: Path) -> dict[str, str]:
    """Return the variables that a process must have in its environment to be found again."""
    return {MARK: identity(home)}


def marked(wanted: str) -> list[psutil.Process]:
    """Return every living process that `bulk up` of the installation with this identity started, directly or through
    others."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) != wanted or process.status() == psutil.STATUS_ZOMBIE:
                continue
            # An embedded server that a marked process had to start belongs to all its users.
            if not process.name().startswith("postgres"):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def end(wanted: str, grace: float, hurry: Callable[[], bool] = lambda: False) -> int:
    """End all marked processes, and return how many were killed. They are asked first, and killed when `grace` seconds
    have passed or `hurry` returns True.

    The installation is named by its identity, because its folder may be gone by then.
    """
    deadline = time.monotonic() + grace
    asked: set[psutil.Process] = set()
    killed: set[psutil.Process] = set()
    while living := marked(wanted):
        late = time.monotonic() > deadline or hurry()
        for process in living:
            if late:
                tell(process.kill)
                killed.add(process)
            elif process not in asked:
                tell(process.terminate)
                asked.add(process)
        psutil.wait_procs(living, timeout=LOOK_AGAIN)
    return len(killed)


def tell(signal: Callable[[], None]) -> None:
    with contextlib.suppress(psutil.Error):  # the process may have ended meanwhile
        signal()
