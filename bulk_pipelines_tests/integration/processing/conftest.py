"""A scene of processing on a database of the test's own, and a table there to match with."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines_tests.scenes.matching import COMPANIES
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.wikidata import ITEMS, REDIRECTS
from bulk_pipelines_tests.servers.wikimedia_server import Wikimedia


@pytest.fixture
def scene(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(engine, tmp_path, monkeypatch)


@pytest.fixture
def table(scene: Scene) -> str:
    with transaction(scene.pool) as connection:
        connection.execute("CREATE SCHEMA register")
        connection.execute(
            'CREATE TABLE register."Companies" (id bigint, name text, former text, country text, city text)'
        )
        with connection.cursor().copy(
            'COPY register."Companies" (id, name, former, country, city) FROM STDIN (FORMAT csv, HEADER)'
        ) as copy:
            copy.write(COMPANIES)
    return 'table = "register.Companies"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    return tmp_path / "pictures"


@pytest.fixture
def wiki() -> Wikimedia:
    return Wikimedia(ITEMS, REDIRECTS)
