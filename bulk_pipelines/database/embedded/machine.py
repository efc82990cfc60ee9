"""The machine that a server was started on. It is noted because locks tell whether a folder is used on this machine,
but not whether another machine that has the same disk uses it."""

import os
import socket
from pathlib import Path

from bulk_pipelines.database import folders
from bulk_pipelines.database.embedded import owner
from bulk_pipelines.errors import Unavailable

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""The file with an id that is the same in all containers of a machine, and another one each time the machine boots."""

NOTE = "started_on"


def note(data: Path) -> None:
    """Write down beside the data on which machine they are used."""
    folders.write(data / NOTE, f"{boot()} {socket.gethostname()}\n")
    os.chown(data / NOTE, *owner.of(data))  # next time, that user may start the server, and not root


def refuse_other(data: Path) -> None:
    """Refuse data that another machine may still use. A machine of the same name is the same one, which may have been
    switched off and on meanwhile."""
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
