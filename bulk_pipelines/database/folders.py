"""The folders of this installation. They are for their owner alone, and get paths that sockets can have."""

import hashlib
import os
import re
import tempfile
import threading
from pathlib import Path

from bulk_pipelines.errors import Unavailable

LONGEST_SOCKET = 100
"""The most characters of a socket's path. The limit is 104 on macOS and 108 on Linux."""

PLAIN = re.compile(r"[\w./-]+")
"""Paths that mean the same in a shell, in PostgreSQL's lists and in a URL."""

UMASK = 0o077
"""The umask of other programs that write into our folders, so that their files are for their owner alone, too."""


def private(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for their owner alone. Folders that are there stay as they
    are."""
    for missing in reversed([each for each in folder.parents if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def ready(folder: Path) -> Path:
    """Make a private folder of this installation. Raise `Unavailable` when that is not possible."""
    try:
        return private(folder)
    except OSError as error:
        raise unusable(folder, error) from error


def owner_only(path: str, flags: int) -> int:
    """Open a file for `open(…, opener=owner_only)`. A file that this makes is for its owner alone."""
    return os.open(path, flags, 0o600)


def write(file: Path, text: str) -> None:
    """Write a small file for its owner alone, whole or not at all. A file that has this text already stays as it is."""
    try:
        if file.exists() and file.read_text() == text:
            return
        unfinished = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
        with open(unfinished, "w", opener=owner_only) as writing:
            writing.write(text)
        unfinished.replace(file)
    except OSError as error:
        raise unusable(file, error) from error


def unusable(place: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"{place} cannot be used ({error.strerror}): make it writable for this user, or name another BULK_HOME"
    )


def for_sockets(folder: Path, name: str) -> Path:
    """Return a path of the folder that is fit for a socket of this name: the folder's own, or that of a link to it.

    The socket itself is always in the folder, so that it is found by whatever path the folder is reached.
    """
    folder = folder.resolve()
    if len(str(folder / name)) <= LONGEST_SOCKET and PLAIN.fullmatch(str(folder)):
        return folder
    key = hashlib.sha256(f"{os.geteuid()} {folder}".encode()).hexdigest()[:16]
    link = Path(tempfile.gettempdir()).resolve() / f"bulk-{key}"
    try:
        link.symlink_to(folder)
    except FileExistsError:
        if not link.is_symlink() or link.lstat().st_uid != os.geteuid() or link.readlink() != folder:
            raise Unavailable(f"{link} was made by somebody else: remove it, or name a shorter BULK_HOME") from None
    return link
