"""The files' content: what the query says, as CSV that any reader reads, however it was read from the database."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution.files import contents, data
from bulk_pipelines.distribution.files.contents import Contents, Weight
from bulk_pipelines.distribution.files.data import Query
from bulk_pipelines.distribution.request import Input, checked
from bulk_pipelines.errors import InvalidInput, Permanent, Transient, Unavailable
from bulk_pipelines_tests.scenes.distribution import HEADER, Scene, many, records, wanted

NASTY = [
    "a,b",
    'say "no"',
    "two\nlines",
    "cr\r\nlf",
    "",
    "\\.",
    "7,x\n8,y",
    " padded ",
    "é日本",
    "tab\there",
    "'",
    "%(x)s",
]


def whole(scene: Scene, query: Query, one: Input) -> bytes:
    with data.stream(scene.pool, query, one) as stream:
        return b"".join(chunk.data for chunk in stream.chunks)


def query_file(folder: Path, text: str) -> str:
    file = folder / "query.sql"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.fixture
def nasty(scene: Scene, tmp_path: Path) -> Query:
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.nasty (key text, n int, value text, other text)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO nasty VALUES (%s, %s, %s, %s)",
                [(key, n, value, None if n % 2 else value) for key in "ABC" for n, value in enumerate(NASTY)],
            )
    return data.query_of(
        query_file(
            tmp_path,
            "-- a comment: with a colon\n"
            'SELECT value, other AS "odd, ""name", :effective_date AS day, \'10%\'::text AS share, n::int8\n'
            "FROM nasty WHERE key = :index_key AND :asof_indicator <> '' AND value NOT LIKE 'zz%'\n"
            "ORDER BY n; ",
        )
    )


def test_a_file_is_what_the_query_says(scene: Scene) -> None:
    inputs = [wanted("ABC"), wanted("ABC", asof="ADJCLS"), wanted("ABC", 20240203), wanted("DEF")]
    scene.have(inputs, rows=2)
    before = datetime.now(UTC) - timedelta(minutes=1)
    found = data.read(scene.pool, data.query_of(""), checked(inputs))
    for given, content in zip(inputs, found, strict=True):
        assert content is not None
        day = datetime.strptime(str(given["effectiveDate"]), "%Y%m%d").date().isoformat()  # noqa: DTZ007
        assert records(content.data) == [
            HEADER,
            [given["indexKey"], day, given["asofindicator"], "C000001", "0.5000000000", "10.500000"],
            [given["indexKey"], day, given["asofindicator"], "C000002", "0.5000000000", "10.500000"],
        ]
        assert content.rows == 2
        assert before < content.read_at


def test_an_input_without_data_is_empty(scene: Scene) -> None:
    scene.have([wanted("ABC")])
    found = data.read(scene.pool, data.query_of(""), checked([wanted("NONE"), wanted("ABC")]))
    assert [content and (content.rows, bool(content.data)) for content in found] == [(0, False), (3, True)]
    with data.stream(scene.pool, data.query_of(""), checked([wanted("NONE")])[0]) as stream:
        assert list(stream.chunks) == []


def test_every_value_comes_back_as_it_was(scene: Scene, nasty: Query) -> None:
    inputs = checked([wanted(key) for key in "ABC"])
    for one, content in zip(inputs, data.read(scene.pool, nasty, inputs), strict=True):
        assert content is not None
        assert content.data == whole(scene, nasty, one)
        assert records(content.data) == [
            ["value", 'odd, "name', "day", "share", "n"],
            *([value, "" if n % 2 else value, "2024-02-02", "10%", str(n)] for n, value in enumerate(NASTY)),
        ]
        assert content.rows == len(NASTY)


def test_many_inputs_are_one_statement_in_their_order(scene: Scene) -> None:
    inputs = many(700)
    scene.have(inputs, rows=4)
    found = data.read(scene.pool, data.query_of(""), checked(list(reversed(inputs))))
    keys = [records(content.data)[1][0] for content in found if content is not None]
    assert keys == [each["indexKey"] for each in reversed(inputs)]


def test_one_with_many_rows_is_left_to_a_stream(scene: Scene) -> None:
    scene.have([wanted("BIG")], rows=data.MOST_ROWS + 1)
    scene.have([wanted("FULL")], rows=data.MOST_ROWS)
    query, inputs = data.query_of(""), checked([wanted("BIG"), wanted("FULL")])
    big, full = data.read(scene.pool, query, inputs)
    assert big is None
    assert full is not None
    assert full.rows == data.MOST_ROWS
    assert full.data == whole(scene, query, inputs[1])
    assert len(records(whole(scene, query, inputs[0]))) == data.MOST_ROWS + 2


def test_a_stream_comes_in_pieces(scene: Scene) -> None:
    scene.have([wanted("BIG")], rows=20_000)
    with data.stream(scene.pool, data.query_of(""), checked([wanted("BIG")])[0]) as stream:
        sizes = [(len(chunk.data), chunk.rows) for chunk in stream.chunks]
    assert sum(rows for _, rows in sizes) == 20_000
    assert len(sizes) > 3
    assert max(size for size, _ in sizes) < data.CHUNK + 200


def test_a_stream_that_is_left_early_gives_its_connection_back(scene: Scene) -> None:
    scene.have([wanted("BIG")], rows=20_000)
    for _ in range(30):  # more often than there are connections
        with (
            pytest.raises(KeyError),
            data.stream(scene.pool, data.query_of(""), checked([wanted("BIG")])[0]) as stream,
        ):
            next(stream.chunks)
            raise KeyError


def test_a_column_that_is_added_is_in_the_next_file(scene: Scene, tmp_path: Path) -> None:
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.wide (key text, a int)")
        connection.execute("INSERT INTO wide VALUES ('ABC', 1)")
    text = "SELECT * FROM wide WHERE key = :index_key AND (:effective_date, :asof_indicator) IS NOT NULL"
    query = data.query_of(query_file(tmp_path, text))
    one = checked([wanted("ABC")])
    for columns in (["key", "a"], ["key", "a", "b"]):
        if "b" in columns:
            with transaction(scene.pool) as connection:
                connection.execute("ALTER TABLE wide ADD COLUMN b int")
        for _ in range(8):  # often enough for psycopg to prepare a statement
            (content,) = data.read(scene.pool, query, one)
            assert content is not None
            assert records(content.data)[0] == columns
            assert whole(scene, query, one[0]) == content.data


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


def test_the_next_inputs_are_read_when_they_are_wanted(scene: Scene) -> None:
    inputs = many(200)
    scene.have(inputs)
    weight = Weight()
    claim = Contents(scene.pool, data.query_of(""), list(enumerate(checked(inputs))), weight)
    assert claim.take(0) is not None
    assert len(claim.ready) == contents.FIRST_TOGETHER - 1
    assert weight.together == contents.FIRST_TOGETHER * 4
    assert all(claim.take(number) is not None for number in range(1, 200))
    assert (claim.take(0), claim.ready, list(claim.coming)) == (None, {}, [])


def test_an_input_whose_old_file_is_gone_does_not_make_the_others_be_read(scene: Scene) -> None:
    """It was to be used again, so its data is not among that of the claim, however long one looks for it there."""
    inputs = many(200)
    scene.have(inputs)
    claim = Contents(scene.pool, data.query_of(""), list(enumerate(checked(inputs)))[1:], Weight())
    assert claim.take(0) is None
    assert (len(claim.ready), len(claim.coming)) == (0, 199)


@pytest.mark.parametrize(("size", "together"), [(100, 128), (contents.BYTES_TOGETHER // 10, 10), (1 << 40, 1)])
def test_heavy_files_are_read_few_at_a_time(size: int, together: int) -> None:
    weight = Weight()
    weight.observe(1, size)
    assert weight.together == together


def test_an_outage_in_the_middle_of_a_claim_loses_no_input(scene: Scene, tmp_path: Path) -> None:
    with transaction(scene.pool) as connection:
        connection.execute("CREATE TABLE public.broken AS SELECT 1")
    text = (
        "SELECT (SELECT pg_terminate_backend(pg_backend_pid()) FROM broken) AS killed,"
        " :index_key, :effective_date, :asof_indicator"
    )
    claim = Contents(scene.pool, data.query_of(query_file(tmp_path, text)), list(enumerate(checked(many(5)))), Weight())
    with pytest.raises(Unavailable):
        claim.take(3)
    with transaction(scene.pool) as connection:
        connection.execute("DELETE FROM broken")
    assert all(claim.take(number) is not None for number in range(5))
