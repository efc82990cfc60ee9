"""Scenes of distribution: files in a folder or in a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.storage.access import Access
from bulk_pipelines_tests.scenes.distribution import Scene
from bulk_pipelines_tests.servers.processes import Place


@pytest.fixture
def many_connections(database_url: str) -> Iterator[Engine]:
    made = pool.connect(database_url, application="test", size=20)
    yield made
    made.dispose()


@pytest.fixture
def scene(many_connections: Engine, tmp_path: Path) -> Scene:
    """A scene that puts its files into a folder."""
    return Scene(many_connections, Place(str(tmp_path / "files"), Access()))


@pytest.fixture(params=["folder", "s3"])
def either(request: pytest.FixtureRequest, scene: Scene) -> Scene:
    """A scene that puts its files into a folder or into S3, as the test's parameter says."""
    return scene.on(request.getfixturevalue("s3_bucket")) if request.param == "s3" else scene
