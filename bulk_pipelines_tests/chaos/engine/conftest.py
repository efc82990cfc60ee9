"""A PostgreSQL of these tests' own, which they may stop and kill, and the randomness of a test, told when it fails."""

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bulk_pipelines.database import migrations, pool, samples
from bulk_pipelines.database.embedded import shared
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.chaos.engine.scene import Scene
from bulk_pipelines_tests.scenes import today


@pytest.fixture(scope="session")
def victim(binaries: Path) -> Iterator[Server]:
    """A server that nobody else uses; stopped at the end, however the session ends."""
    with TemporaryDirectory(prefix="bulk-chaos-", dir="/tmp") as name:
        folder = Path(name) / "database"
        with shared.held(folder, binaries) as running:
            yield running


@pytest.fixture
def scene(victim: Server, tmp_path: Path) -> Iterator[Scene]:
    victim.start()
    name = f"chaos_{uuid.uuid4().hex[:16]}"
    with pool.single(victim.url()) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = victim.url(name)
    migrations.apply(url)
    samples.furnish(url)
    with pool.single(url) as connection:
        connection.execute((Path(__file__).parent / "tables.sql").read_text())
    engine = pool.connect(url, application="chaos test")
    yield Scene(victim, url, engine, tmp_path)
    engine.dispose()
    victim.start()
    with pool.single(victim.url()) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def chance() -> random.Random:
    """What a test draws at random, by the seed of the day."""
    return today.chance()
