"""Who gives a command at a terminal or in a container."""

import getpass
import os

from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.submission import Sender


def sender(idempotency_key: str | None, priority: int) -> Sender:
    return Sender(user(), "cli", idempotency_key, priority=priority)


def actor() -> Actor:
    """Return whoever gives the command, as the audit knows them."""
    return Actor(user(), "cli")


def user() -> str:
    """Return the name of the user, or the number of one who has no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
