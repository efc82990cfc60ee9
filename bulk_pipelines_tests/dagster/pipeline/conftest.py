"""A Dagster instance that tries runs again, as an installation has it."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest


@pytest.fixture
def instance(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    with dg.DagsterInstance.local_temp(str(tmp_path), {"run_retries": {"enabled": True, "max_retries": 3}}) as made:
        yield made
