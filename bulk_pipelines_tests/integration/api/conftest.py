from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.api import Api, serving_here


@pytest.fixture
def api(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API on a database of the test's own. Work that is done in this process finds what was sent to it."""
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    with serving_here(engine, tmp_path / "home") as serving:
        yield serving
