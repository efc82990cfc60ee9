"""A PostgreSQL of these tests' own, which they may stop and kill, and the randomness of a test, told when it fails."""

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded import shared
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.chaos.engine.scene import Scene
from bulk_pipelines_tests.scenes import databases, today


@pytest.fixture(scope="session")
def victim(binaries: Path) -> Iterator[Server]:
    """A server that nobody else uses; stopped at the end, however the session ends."""
    with TemporaryDirectory(prefix="bulk-chaos-", dir="/tmp") as name:
        folder = Path(name) / "database"
        with shared.held(folder, binaries) as running:
            yield running


@pytest.fixture
def scene(victim: Server, tmp_path: Path) -> Iterator[Scene]:
    with databases.on_a_victim(victim) as url:
        with pool.single(url) as connection:
            connection.execute((Path(__file__).parent / "tables.sql").read_text())
        engine = pool.connect(url, application="chaos test")
        yield Scene(victim, url, engine, tmp_path)
        engine.dispose()


@pytest.fixture
def chance() -> random.Random:
    """What a test draws at random, by the seed of the day."""
    return today.chance()
