from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines_tests.scenes.import_jobs import Imports, imports_of, prepare


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Imports land their files in a home of the test's own."""
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def imports(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    """Imports with small ranges, which can be buried."""
    return imports_of(engine, tmp_path, monkeypatch)


@pytest.fixture
def importer(engine: Engine, database_url: str) -> Iterator[Engine]:
    """A pool of a role that is not above the rules."""
    prepare(
        engine,
        """
        DO $$ BEGIN CREATE ROLE importer LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
        GRANT USAGE, CREATE ON SCHEMA bulk TO importer;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA bulk, public TO importer;
        """,
    )
    made = pool.connect(f"{database_url}{'&' if '?' in database_url else '?'}options=-c%20role%3Dimporter")
    yield made
    made.dispose()
