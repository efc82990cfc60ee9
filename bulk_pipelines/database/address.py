"""Which database the settings mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bulk_pipelines.database.embedded.shared import held as embedded_server
from bulk_pipelines.database.embedded.shared import revived, url_until_exit
from bulk_pipelines.settings import Settings


def url(settings: Settings) -> str:
    """Where the database is. The embedded server, when it is that one, runs from now on until this process ends."""
    return settings.database_url or url_until_exit(embedded_folder(settings), "postgres")


@contextmanager
def held(settings: Settings) -> Iterator[str]:
    """Where the database is, for as long as the block lasts; then the embedded server, when it was that one, stops."""
    if settings.database_url:
        yield settings.database_url
    else:
        with embedded_server(embedded_folder(settings)) as server:
            yield server.url()


def mended(settings: Settings) -> bool:
    """Start the embedded server, when it is that one, again after its sudden end; whether that was needed."""
    return not settings.database_url and revived(embedded_folder(settings))


def embedded_folder(settings: Settings) -> Path:
    return settings.home / "database"
