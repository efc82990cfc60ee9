"""A client of a real server."""

from collections.abc import Iterator

import pytest

from bulk_pipelines.client import Client
from bulk_pipelines_tests.scenes.api import Api


@pytest.fixture
def ada(api: Api) -> Iterator[Client]:
    with Client(api.url, api.text("ada")) as client:
        yield client
