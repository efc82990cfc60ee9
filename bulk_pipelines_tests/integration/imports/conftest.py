from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.import_jobs import Imports, imports_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Imports land their files in a home of the test's own."""
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def imports(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    """Imports with small ranges, which can be buried."""
    return imports_of(engine, tmp_path, monkeypatch)
