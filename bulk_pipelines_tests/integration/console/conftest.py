"""A furnished installation that the tests of one file share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from bulk_pipelines.database import pool
from bulk_pipelines.database.embedded.server import Server
from bulk_pipelines_tests.scenes import databases
from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.browser import Visitor
from bulk_pipelines_tests.scenes.furnished import Furnished, furnished
from bulk_pipelines_tests.servers import chromium


@pytest.fixture(scope="module")
def house(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Furnished]]:
    with databases.fresh(server, template) as url:
        engine = pool.connect(url, application="test")
        with furnished(engine, tmp_path_factory.mktemp("house")) as made:
            yield made
        engine.dispose()


@pytest.fixture(scope="module")
def api(house: tuple[Api, Furnished]) -> Api:
    return house[0]


@pytest.fixture(scope="module")
def made(house: tuple[Api, Furnished]) -> Furnished:
    return house[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.started() as started:
        yield started


@pytest.fixture(scope="module")
def ada(api: Api) -> Visitor:
    return Visitor(api, "ada")
