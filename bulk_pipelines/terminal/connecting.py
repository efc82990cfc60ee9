"""The database of a command. It is imported when a command needs it: to import it takes a while."""

from typing import TYPE_CHECKING

from bulk_pipelines import settings

if TYPE_CHECKING:
    from sqlalchemy import Engine


def connected() -> "Engine":
    """Return a pool on the installation's database, whose schema is up to date."""
    from bulk_pipelines.database import ready

    return ready.opened(settings.current(), "bulk cli")
