"""Every storage, each on a real server: each test of this folder is held against all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.contract import Storage
from bulk_pipelines_tests.servers.processes import Place

ALL = ["local", "s3", "ftp", "ftps", "ftpes", "plain_ftp", "sftp"]


@pytest.fixture(params=ALL)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty folder on the storage under test."""
    if request.param == "local":
        (tmp_path / "folder").mkdir()
        return Place(str(tmp_path / "folder"), Access())
    server = request.getfixturevalue(f"{request.param}_server")
    made: Place = server.bucket() if request.param == "s3" else server.place()
    return made


@pytest.fixture
def storage(place: Place) -> Iterator[Storage]:
    with locations.folder(place.url, place.access) as made:
        yield made


@pytest.fixture
def again(place: Place) -> Iterator[Storage]:
    """The same folder, as another process would see it."""
    with locations.folder(place.url, place.access) as made:
        yield made
