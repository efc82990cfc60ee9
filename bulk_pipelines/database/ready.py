"""The installation's database, with a schema that is as this program needs it."""

from sqlalchemy import Engine

from bulk_pipelines.database import address, migrations, pool
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import Settings


def url(settings: Settings) -> str:
    """Return the address of the database, once its schema is up to date. The first process to come migrates an embedded
    database; any other has to be migrated by its owner."""
    found = address.url(settings)
    if not settings.database_url:
        migrations.apply(found)
    elif migrations.pending(found):
        raise Unavailable("the database's schema is not up to date: run `bulk migrate`")
    return found


def opened(settings: Settings, application: str) -> Engine:
    return pool.connect(
        url(settings), application=application, size=settings.pool_size, timeout=settings.connect_timeout
    )
