"""A scene of processing on a database of the test's own."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.processing import Scene


@pytest.fixture
def scene(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(engine, tmp_path, monkeypatch)
