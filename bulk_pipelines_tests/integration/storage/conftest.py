import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines_tests.servers.web_server import WebServer


@pytest.fixture
def without_aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on this machine has credentials of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


@pytest.fixture
def into(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "landed")


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server
