from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from bulk_pipelines.orchestration.resources import process_pool


@pytest.fixture
def instance(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """A Dagster instance whose runs, in this process, use the database of the test."""
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    process_pool.cache_clear()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made
    process_pool.cache_clear()
