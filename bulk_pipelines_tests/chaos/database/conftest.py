"""A home for a database, as a test finds it: empty, and reached by a short path."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bulk_pipelines.database.embedded.server import Server


@pytest.fixture
def folder(binaries: Path) -> Iterator[Path]:
    """A folder that only its owner can enter, by a short path."""
    with TemporaryDirectory(prefix="bulk-place-", dir="/tmp") as name:
        yield Path(name) / "database"
        Server(Path(name) / "database" / "postgres", binaries).stop_immediately()


@pytest.fixture
def other(folder: Path) -> Iterator[Path]:
    """An empty folder on which another one can be mounted."""
    with TemporaryDirectory(prefix="bulk-other-", dir="/tmp") as name:
        yield Path(name)
