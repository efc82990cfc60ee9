"""Locks on files and folders, which the kernel releases however their holder ends.

A lock belongs to the file itself, by whatever path and from whatever container of this machine the file is reached. A
child process that inherits the open file shares the lock, which is free when the last of these processes has ended.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bulk_pipelines.errors import Unavailable


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the exclusive lock of this file, and hold it while the block lasts."""
    descriptor = opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def taken(descriptor: int, mode: int) -> bool:
    """Try to take a lock without waiting, and return whether it could be had."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def folder(path: Path) -> int | None:
    """Take the exclusive lock of a folder. Return its descriptor, to close or to hand down to a child process; None if
    another process has the lock."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if taken(descriptor, fcntl.LOCK_EX):
            return descriptor
    except OSError as error:
        os.close(descriptor)
        raise Unavailable(
            f"the file system of {path} cannot lock a folder ({error.strerror}): name a folder on a disk of this "
            "machine as BULK_HOME, or set BULK_DATABASE_URL"
        ) from error
    os.close(descriptor)
    return None


def folder_in_use(path: Path) -> bool:
    """Whether a process holds the lock of a folder. Several processes can look at the same time."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not taken(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
