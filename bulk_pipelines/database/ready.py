"""A pool on the installation's database, its schema as this program needs it."""

from sqlalchemy import Engine

from bulk_pipelines.database import address, migrations, pool
from bulk_pipelines.errors import Unavailable
from bulk_pipelines.settings import Settings


def opened(settings: Settings, application: str) -> Engine:
    """The embedded database is migrated by whoever comes first; any other one is its owner's to migrate."""
    url = address.url(settings)
    if not settings.database_url:
        migrations.apply(url)
    elif migrations.pending(url):
        raise Unavailable("the database's schema is not up to date: run `bulk migrate`")
    return pool.connect(url, application=application, size=settings.pool_size, timeout=settings.connect_timeout)
