"""The files' content: what the query says, as CSV that any reader reads, however it was read from the database."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution.files import contents, data
from bulk_pipelines.distribution.files.contents import Contents, Weight
from bulk_pipelines.distribution.files.data import Query
from bulk_pipelines.distribution.request import checked
from bulk_pipelines.errors import Unavailable
from bulk_pipelines_tests.scenes.distribution import HEADER, Scene, many, query_file, records, wanted, whole

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
    """The input was to use its file again, so its data are not among those of the claim, however long one looks
    there."""
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
