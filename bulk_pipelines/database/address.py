"""The address of the database that the settings mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bulk_pipelines.database.embedded.shared import held as embedded_server
from bulk_pipelines.database.embedded.shared import revived, url_until_exit
from bulk_pipelines.settings import Settings


def url(settings: Settings) -> str:
    """Return the address of the database. If it is the embedded server's, that server runs from now on until this
    process ends."""
    return settings.database_url or url_until_exit(embedded_folder(settings), "postgres")


def running(settings: Settings) -> str | None:
    """Return the address of the database if there is no need to start it."""
    if settings.database_url or (embedded_folder(settings) / "postgres" / "postmaster.pid").exists():
        return url(settings)
    return None


@contextmanager
def held(settings: Settings) -> Iterator[str]:
    """Yield the address of the database. If it is the embedded server's, that server runs while the block lasts, and
    stops then if nobody else uses it."""
    if settings.database_url:
        yield settings.database_url
    else:
        with embedded_server(embedded_folder(settings)) as server:
            yield server.url()


def mended(settings: Settings) -> bool:
    """If the database is the embedded server's, start that server again after its sudden end. Return whether that was
    needed."""
    return not settings.database_url and revived(embedded_folder(settings))


def embedded_folder(settings: Settings) -> Path:
    return settings.home / "database"
