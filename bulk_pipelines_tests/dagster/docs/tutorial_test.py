"""The tutorial, as it stands: every command on it runs, in its order, and says what the page says that it does."""

from pathlib import Path

import pytest

from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.scenes.reader import Reader

pytestmark = pytest.mark.long


def test_every_command_does_what_the_page_says(tmp_path: Path, empty_database_url: str, binaries: Path) -> None:
    reader = Reader(tmp_path / "work", empty_database_url, tmp_path / "home", binaries)
    said = reader.reads(CHECKOUT / "docs" / "tutorial.md")
    assert len(said) > 8
