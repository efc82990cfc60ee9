from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.api import Api, serving_here


@pytest.fixture
def api(engine: Engine, tmp_path: Path) -> Iterator[Api]:
    """The API on a database of the test's own."""
    with serving_here(engine, tmp_path / "home") as serving:
        yield serving
