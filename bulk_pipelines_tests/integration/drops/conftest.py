"""The inbox of a test."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.inbox import Inbox


@pytest.fixture
def inbox(engine: Engine, tmp_path: Path) -> Inbox:
    made = Inbox(engine, tmp_path / "inbox")
    made.set()
    return made
