"""The embedded server of one installation, which all its processes share. When the last of them has ended, the server
is stopped.

Every process that uses the server holds a shared lock on `users.lock`, which the kernel releases however the process
ends. A small keeper process waits for the exclusive lock, which it gets when no user is left, and stops the server.
"""

import atexit
import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg

from bulk_pipelines.database import folders, session
from bulk_pipelines.database.embedded.binaries import embedded
from bulk_pipelines.database.embedded.locks import locked, opened, taken
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines.database.pool import parsed

PATIENCE = 60
"""How many seconds a server may take to recover from a crash."""

STARTING = threading.Lock()


@contextmanager
def held(folder: Path, binaries: Path | None = None) -> Iterator[Server]:
    """Yield the server of this folder, which runs for as long as the block lasts. It is started when nobody uses it
    yet."""
    server = Server(folder / "postgres", binaries or embedded())
    users = joined(folder)
    try:
        with STARTING, locked(folder / "start.lock"):
            ensure_keeper(folder, server)
            start(server)
        yield server
    finally:
        leave(users, server)


def joined(folder: Path) -> int:
    """Take and return the shared lock of a user of this folder. This waits while the server is being stopped or
    removed."""
    path = folders.ready(folder) / "users.lock"
    while True:
        try:
            users = opened(path)
        except FileNotFoundError:  # the folder was just removed
            folders.ready(folder)
            continue
        except OSError as error:
            raise folders.unusable(path, error) from error
        fcntl.flock(users, fcntl.LOCK_SH)
        if path.exists() and path.stat().st_ino == os.fstat(users).st_ino:
            return users
        os.close(users)


@cache
def url_until_exit(folder: Path, database: str) -> str:
    """Return the address of the server of this folder, which runs until this process ends."""
    holder = held(folder)
    server = holder.__enter__()
    atexit.register(holder.__exit__, None, None, None)
    return server.url(database)


def revived(folder: Path) -> bool:
    """Start the server of this folder again when it has died while it was used. Return whether that was needed."""
    server = Server(folder / "postgres", embedded())
    if server.running():
        return False
    with STARTING, locked(folder / "start.lock"):
        ensure_keeper(folder, server)
        return start(server)


def leave(users: int, server: Server) -> None:
    """Stop using the server. The last user returns when the server has stopped; others return at once."""
    try:
        if taken(users, fcntl.LOCK_EX):
            server.stop()
        else:
            # Either others use it, or the keeper was quicker and is stopping it. This waits for the keeper.
            fcntl.flock(users, fcntl.LOCK_SH)
    finally:
        os.close(users)


def start(server: Server) -> bool:
    """Start the server, and make sure that it answers, because a server that is just dying still looks alive. Return
    whether a start was needed."""
    deadline = time.monotonic() + PATIENCE
    needed = False
    while True:
        needed = server.start() or needed
        try:
            psycopg.connect(**session.arguments(parsed(server.url()), "bulk start", 10)).close()
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise server.silent(str(error)) from error
            time.sleep(0.05)
        else:
            return needed


def ensure_keeper(folder: Path, server: Server) -> None:
    """Start a keeper when there is none. It inherits its lock, so there is never a second keeper."""
    keeper = opened(folder / "keeper.lock")
    try:
        if taken(keeper, fcntl.LOCK_EX):
            subprocess.Popen(
                [sys.executable, "-m", "bulk_pipelines.database.embedded.keeper", str(folder), str(server.binaries)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[keeper],
                start_new_session=True,
                cwd="/",
            )
    finally:
        os.close(keeper)


def remove(folder: Path, patience: float = 0) -> bool:
    """Delete the server of this folder with all its data, unless somebody uses it. Return whether that was done.

    `patience` is how many seconds to wait for a last user that is just leaving.
    """
    deadline = time.monotonic() + patience
    try:
        users = opened(folder / "users.lock")
    except FileNotFoundError:  # somebody else removes it at this moment
        return False
    try:
        while not taken(users, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        Server(folder / "postgres", embedded()).stop_immediately()
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(users)
