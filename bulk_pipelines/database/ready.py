"""The installation's database, with a schema that is as this program needs it."""

from sqlalchemy import Engine

from bulk_pipelines.database import address, migrations, pool, samples
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import Settings


def url(settings: Settings) -> str:
    """Return the address of the database, once its schema is up to date. The first process to come migrates an embedded
    database; any other has to be migrated by its owner."""
    found = address.url(settings)
    if not settings.database_url:
        migrated(settings, found)
    elif migrations.pending(found):
        raise Unavailable("the database's schema is not up to date: run `bulk migrate`")
    return found


def migrated(settings: Settings, url: str) -> list[str]:
    """Bring the database to the newest schema, and return the names of the migrations that were applied now. An
    embedded database is this program's own, so it gets the tables to try it with, too."""
    applied = migrations.apply(url)
    if applied and not settings.database_url:
        samples.furnish(url)
    return applied


def opened(settings: Settings, application: str) -> Engine:
    return pool.connect(
        url(settings), application=application, size=settings.pool_size, timeout=settings.connect_timeout
    )
