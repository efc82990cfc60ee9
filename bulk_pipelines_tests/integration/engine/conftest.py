"""One database for a module whose tests look at their own jobs only; a server of the tests' own to restart."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import migrations
from bulk_pipelines.database import pool as pools
from bulk_pipelines.database.embedded import shared
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.scenes import databases


@pytest.fixture(scope="module")
def pool_url(server: Server, template: str) -> Iterator[str]:
    with databases.fresh(server, template) as url:
        yield url


@pytest.fixture(scope="module")
def pool(pool_url: str) -> Iterator[Engine]:
    made = pools.connect(pool_url, application="test", size=20)
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def own_server(binaries: Path) -> Iterator[Server]:
    """A PostgreSQL that nobody else uses, so that it may be stopped."""
    with (
        TemporaryDirectory(prefix="bulk-own-", dir="/tmp") as name,
        shared.held(Path(name) / "database", binaries) as running,
    ):
        yield running


@pytest.fixture
def own_pool(own_server: Server) -> Iterator[Engine]:
    own_server.start()
    migrations.apply(own_server.url())
    made = pools.connect(own_server.url(), application="test", size=20, timeout=3)
    yield made
    made.dispose()
