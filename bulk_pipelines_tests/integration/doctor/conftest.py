from pathlib import Path

import pytest

from bulk_pipelines.settings import Settings


@pytest.fixture
def chosen(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database_url, home=tmp_path / "home", connect_timeout=2)
