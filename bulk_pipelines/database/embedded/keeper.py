"""The process that stops an embedded server when its last user is gone, even if that user was killed."""

import fcntl
import sys
from pathlib import Path

from bulk_pipelines.database.embedded.locks import opened
from bulk_pipelines.database.embedded.server import Server


def keep(folder: Path, binaries: Path) -> None:
    """Wait until nobody uses the server of this folder, then stop it."""
    users = opened(folder / "users.lock")
    fcntl.flock(users, fcntl.LOCK_EX)
    Server(folder / "postgres", binaries).stop()


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
