"""The machine that a server was started on. Locks tell who uses a folder on one machine, not on two with one disk."""

import os
import socket
from pathlib import Path

from bulk_pipelines.database import folders
from bulk_pipelines.database.embedded import owner
from bulk_pipelines.errors import Unavailable

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""The same for all containers of a machine, and another one each time that it is switched on."""

NOTE = "started_on"


def note(data: Path) -> None:
    """Write down beside the data where they are used."""
    folders.write(data / NOTE, f"{boot()} {socket.gethostname()}\n")
    os.chown(data / NOTE, *owner.of(data))  # who may start the server next time without being root


def refuse_other(data: Path) -> None:
    """Refuse data that another machine has not given back. The same machine may have been switched off meanwhile."""
    try:
        noted_boot, _, noted_name = (data / NOTE).read_text().strip().partition(" ")
    except FileNotFoundError:
        return
    if noted_boot != boot() and noted_name != socket.gethostname():
        raise Unavailable(
            f"PostgreSQL in {data} was started on {noted_name} and may still run there: stop it there; "
            f"if nothing runs there any more, remove {data / 'postmaster.pid'}"
        )


def boot() -> str:
    return BOOT.read_text().strip() if BOOT.exists() else "-"
