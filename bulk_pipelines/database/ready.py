"""The installation's database, its schema as this program needs it."""

from sqlalchemy import Engine

from bulk_pipelines.database import address, migrations, pool
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import Settings


def url(settings: Settings) -> str:
    """Where the database is. Whoever comes first migrates the embedded one; any other is its owner's to migrate."""
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
