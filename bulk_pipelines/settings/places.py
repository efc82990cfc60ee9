"""Where the program's own files lie, and which folder is the installation that a command means."""

import os
from pathlib import Path

from bulk_pipelines.errors import InvalidInput

PACKAGE = Path(__file__).resolve().parents[1]

CHECKOUT = PACKAGE.parent
"""The folder that the package is imported from: a checkout, or the site-packages where a wheel was installed."""

HOME = ".bulk"
DROPS = "drops.toml"


def shipped(path: str) -> Path:
    """Return a file or folder that comes with the program and is no Python. In a checkout the package has links to
    where people look for them (`sql/`, `docs/samples/`, `dagster.yaml`); in a wheel it has the files themselves."""
    return PACKAGE / path


def project() -> Path:
    """Return the folder of the installation that is meant: the nearest one, from the current folder upwards, that has
    an installation or the file of its drop sources. When there is none, it is the current folder.

    So two folders are two installations, and a command in a folder below means the same one, as with git. What
    somebody else has put into a folder above is not taken up: it would decide where our data go.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise InvalidInput("BULK_HOME", "the current folder is gone: go to another one, or name a folder") from None
    if any(exists(here / name) for name in (HOME, DROPS)):
        return here
    return next((each for each in here.parents if any(is_ours(each / name) for name in (HOME, DROPS))), here)


def exists(path: Path) -> bool:
    return os.path.lexists(path)


def is_ours(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False
