import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes import shop as shops
from bulk_pipelines_tests.scenes.shop import Shop


@pytest.fixture
def shop(engine: Engine) -> Shop:
    """The tables of a shop, in a database of the test's own."""
    return shops.opened(engine)
