"""Imports that are run by Dagster in this process, on a database of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.import_assets import Installation


@pytest.fixture
def installation(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield Installation(engine, database_url, instance)
