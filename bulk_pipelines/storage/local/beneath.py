"""Reaching files below a folder that others may write to, part by part and without following links.

Between a look at a path and its use, whoever may write to one of its folders can put a link in the place of a part.
So the file's folder is opened and held, and the file is only used by its name in that folder.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bulk_pipelines.errors import Permanent
from bulk_pipelines.storage.errors import UnsafePath

FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


@contextmanager
def held(root: Path, key: str, *, follow: bool, make: int | None = None) -> Iterator[tuple[int, str]]:
    """Open the folder of the key's file, and yield it with the file's name in it. Folders that are missing are made
    with the mode `make`, if it is given.

    Links that are there when this is called may lead elsewhere below the root; with `follow`, the file itself may be
    such a link.
    """
    parts = within(root, key, follow)
    if not parts:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    folder = os.open(os.path.realpath(root), FOLDER)
    try:
        for part in parts[:-1]:
            inner = opened(part, folder, make)
            os.close(folder)
            folder = inner
        yield folder, parts[-1]
    finally:
        os.close(folder)


def within(root: Path, key: str, follow: bool) -> tuple[str, ...]:
    """Return the parts of the key's path below the root, once links are resolved."""
    place, top = root / key, real_path(root)
    real = real_path(place) if follow else real_path(place.parent) / place.name
    if not real.is_relative_to(top):
        raise UnsafePath("path", f"{place} is a link that leads out of {root}")
    return real.relative_to(top).parts


def opened(name: str, folder: int, make: int | None) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if make is None:
            raise
    except NotADirectoryError:
        if make is None:
            raise
        raise Permanent(f"{name} is a file where a folder is needed") from None
    with suppress(FileExistsError):  # somebody else made it just then
        os.mkdir(name, make, dir_fd=folder)
    return os.open(name, FOLDER, dir_fd=folder)


def real_path(path: Path) -> Path:
    """Resolve the links of a path. (`Path.resolve` raises errors of its own at links in circles; here, opening the file
    tells of these.)"""
    return Path(os.path.realpath(path))
