"""The processes of one installation, found by a mark in their environment: children's children carry it too."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import psutil

MARK = "STARTED_BY_BULK_UP"
LOOK_AGAIN = 0.1


def identity(home: Path) -> str:
    """What tells this installation from others, by whatever path its folder, which must be there, is reached."""
    found = home.stat()
    return f"{found.st_dev}-{found.st_ino}"


def mark(home: Path) -> dict[str, str]:
    """What to add to the environment of a process so that it is found again."""
    return {MARK: identity(home)}


def marked(wanted: str) -> list[psutil.Process]:
    """Every living process that `bulk up` of the installation of this identity started, directly or through others."""
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
    """End all marked processes: asked first, killed when `grace` seconds have passed or `hurry` says so.

    How many were killed. The installation's folder may be gone by then, so its identity is given.
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
    with contextlib.suppress(psutil.Error):  # it may have ended meanwhile
        signal()
