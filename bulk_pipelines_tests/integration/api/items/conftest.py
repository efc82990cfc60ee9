"""A provider of prices, and the recipe that asks it."""

from collections.abc import Iterator

import pytest

from bulk_pipelines_tests.scenes.api import Api
from bulk_pipelines_tests.scenes.api_items import prices, shop
from bulk_pipelines_tests.servers.provider_server import ProviderServer


@pytest.fixture
def provider(api: Api) -> Iterator[ProviderServer]:
    with ProviderServer(prices) as server:
        shop(api, server.url, "keep_nothing_days = 0", "not_found_attempts = 1\nattempts = 1")
        yield server
