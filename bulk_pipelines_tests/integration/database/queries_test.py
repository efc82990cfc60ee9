"""Named queries: every file in sql/ loads, and says why each query exists."""

import pytest

from bulk_pipelines.database import pool, queries
from bulk_pipelines.settings import CHECKOUT

FILES = sorted(path.stem for path in (CHECKOUT / "sql").glob("*.sql"))


@pytest.mark.parametrize("name", FILES)
def test_every_query_has_a_name_and_a_sentence(name: str) -> None:
    loaded = queries.load(name)
    named = [each for each in loaded.available_queries if not each.endswith("_cursor")]
    assert named
    for each in named:
        assert (getattr(loaded, each).__doc__ or "").strip(), f"{name}.sql: {each} does not say why it exists"


def test_a_file_is_read_once() -> None:
    assert queries.load(FILES[0]) is queries.load(FILES[0])


def test_queries_run_on_a_psycopg_connection(database_url: str) -> None:
    with pool.single(database_url) as connection:
        assert list(queries.load("status").jobs_by_kind_and_state(connection)) == []
