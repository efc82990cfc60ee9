"""Queries for the files' data as people write them: awkward, wrong, or cut off."""

from pathlib import Path

import pytest

from bulk_pipelines.distribution.files import data
from bulk_pipelines.distribution.files.contents import Contents, Weight
from bulk_pipelines.distribution.request import checked
from bulk_pipelines.errors import InvalidInput, Permanent, Transient
from bulk_pipelines_tests.scenes.distribution import Scene, many, query_file, records, wanted, whole


def test_a_query_that_is_wrong_is_permanent(scene: Scene, tmp_path: Path) -> None:
    query = data.query_of(
        query_file(
            tmp_path, "SELECT nothing FROM nowhere WHERE :index_key = :effective_date::text AND :asof_indicator = ''"
        )
    )
    with pytest.raises(Permanent, match='the query for the data fails: relation "nowhere" does not exist'):
        data.read(scene.pool, query, checked([wanted("ABC")]))
    with pytest.raises(Permanent, match="nowhere"), data.stream(scene.pool, query, checked([wanted("ABC")])[0]):
        pass


def test_a_statement_that_is_cut_off_passes(scene: Scene, tmp_path: Path) -> None:
    text = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(20), :index_key, :effective_date, :asof_indicator"
    query = data.query_of(query_file(tmp_path, text))
    with pytest.raises(Transient, match="canceling statement"):
        data.read(scene.pool, query, checked([wanted("ABC")]))


AWKWARD_QUERIES = {
    "bare parameters": "SELECT :index_key, :effective_date, :asof_indicator",
    "a comment behind the end": "SELECT :index_key AS a, :effective_date AS b, :asof_indicator AS c; -- :index_key; '",
    "two semicolons": "SELECT :index_key AS a, :effective_date AS b, :asof_indicator AS c; /* ; */ ;",
    "aggregates over parameters": """
        SELECT max(:index_key), count(:effective_date), string_agg(:asof_indicator, ',') AS s FROM generate_series(1, 3)
    """,
    "parameters in literals": r"""
        SELECT ':index_key' AS a, E'\' :index_key' AS b, $x$:index_key$x$ AS c, U&':index_key' AS d, 1 AS ":index_key",
            :index_key AS e, :effective_date AS f, :asof_indicator AS g
    """,
    "casts and slices": """
        SELECT ':index_key'::text AS a, (ARRAY[1, 2, 3])[1:index_key] AS b, ARRAY[:index_key] AS c,
            :effective_date::timestamp AS d, upper(:asof_indicator)::text AS e
        FROM (SELECT 2 AS index_key) AS one
    """,
    "names of ours": """
        SELECT wanted.index_key, asked.n, data.n AS m, :index_key AS a, :effective_date AS b, :asof_indicator AS c
        FROM (SELECT 'own' AS index_key) AS wanted, (SELECT 1 AS n) AS asked, (SELECT 2 AS n) AS data
    """,
    "parts with names": """
        WITH RECURSIVE n (i, k) AS (
            SELECT 1, :index_key UNION ALL SELECT i + 1, :index_key FROM n WHERE i < length(:index_key)
        )
        SELECT i, k, :effective_date, :asof_indicator FROM n ORDER BY i
    """,
    "grouped": """
        SELECT :index_key, count(*), max(n) FROM generate_series(1, 3) AS n
        WHERE :effective_date IS NOT NULL AND :asof_indicator IN (:asof_indicator) GROUP BY :index_key, n ORDER BY n
    """,
    "a comment in a comment": "SELECT :index_key /* a /* b */ :index_key; */ , :effective_date, :asof_indicator",
    "percent signs": "SELECT '%s %(index_key)s %%' AS a, 7 % 4, :index_key, :effective_date, :asof_indicator -- 10 %",
    "a mark before the text": "\ufeffSELECT :index_key, :effective_date, :asof_indicator",
}


@pytest.mark.parametrize("name", AWKWARD_QUERIES)
def test_a_file_is_the_same_read_together_or_streamed(scene: Scene, tmp_path: Path, name: str) -> None:
    query = data.query_of(query_file(tmp_path, AWKWARD_QUERIES[name]))
    inputs = checked([wanted("ABC"), wanted("it's :index_key")])
    for one, content in zip(inputs, data.read(scene.pool, query, inputs), strict=True):
        assert content is not None
        assert content.data == whole(scene, query, one)
        header = records(content.data)[0]
        assert "text" not in header
        if "bare" in name:
            assert header == ["index_key", "effective_date", "asof_indicator"]
        if "literals" in name:
            assert records(content.data)[1] == [
                *(":index_key", "' :index_key", ":index_key", ":index_key", "1"),
                *(one.index_key, "2024-02-02", "CLS"),
            ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1; SELECT 2", "holds more than one statement"),
        ("SELECT 'a", "has a text that does not end, from line 1 on"),
        ("SELECT 1\n, $x$ a $y$", "has a text that does not end, from line 2 on"),
        ("\n\nSELECT 1 /* a /* b */", "has a comment that does not end, from line 3 on"),
        ('SELECT 1 AS "a', "has a name that does not end, from line 1 on"),
        ("SELECT 1 WHERE ':index_key' = ''", "does not ask for :index_key, :effective_date, :asof_indicator"),
        ("SELECT 1 WHERE :index_key = ''", "does not ask for :effective_date, :asof_indicator"),
        ("SELECT 1, a::index_key", "does not ask for :index_key, :effective_date, :asof_indicator"),
    ],
)
def test_a_query_that_asks_for_less_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=f"^BULK_DISTRIBUTION_QUERY: .*{message}"):
        data.query_of(query_file(tmp_path, text))
    with pytest.raises(InvalidInput, match="cannot be read"):
        data.query_of(str(tmp_path / "none.sql"))


def test_one_that_cannot_be_digested_fails_by_itself(scene: Scene, tmp_path: Path) -> None:
    inputs = many(10)
    scene.have(inputs)
    text = "SELECT 1 / (CASE WHEN :index_key = 'IDX00003' THEN 0 ELSE 1 END) AS n, :effective_date, :asof_indicator"
    query = data.query_of(query_file(tmp_path, text))
    claim = Contents(scene.pool, query, list(enumerate(checked(inputs))), Weight())
    assert [claim.take(number) for number in range(10)] == [None] * 10
    assert whole(scene, query, checked(inputs)[2]).startswith(b"n,")
    with pytest.raises(Permanent, match="division by zero"):
        whole(scene, query, checked(inputs)[3])
