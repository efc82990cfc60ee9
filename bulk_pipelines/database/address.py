"""Which database the settings mean."""

from bulk_pipelines.database.embedded import url_until_exit
from bulk_pipelines.settings import Settings


def url(settings: Settings) -> str:
    """Where the database is. The embedded server, when it is that one, runs from now on until this process ends."""
    return settings.database_url or url_until_exit(settings.home / "database", "postgres")
