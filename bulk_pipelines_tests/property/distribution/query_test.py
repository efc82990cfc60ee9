"""A query's parameters are found where PostgreSQL would read them, and nowhere else; judged by PostgreSQL itself."""

from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.distribution.files import data
from bulk_pipelines.distribution.request import checked
from bulk_pipelines_tests.scenes.distribution import records, wanted
from bulk_pipelines_tests.scenes.today import examples

PARTS = st.sampled_from(
    [
        *(
            ":index_key",
            ":effective_date",
            "index_key",
            "::",
            ":",
            ";",
            "--",
            "/*",
            "*/",
            "$",
            "$$",
            "$a$",
            "$1",
            "%",
            "%s",
        ),
        *(
            "%(index_key)s",
            "'",
            "\\",
            '"',
            "E",
            "e'",
            "(",
            ")",
            "[",
            "]",
            "\n",
            "\r",
            " ",
            "\t",
            "é",
            "日本",
            "\xa0",
            "x",
        ),
    ]
)
SOUP = st.lists(PARTS, max_size=8).map("".join)
INDEX_KEY = "it's %s :index_key"
BOUND = {":index_key": INDEX_KEY, ":effective_date": "2024-02-02", ":asof_indicator": "CLS"}
BREAKS = st.sampled_from(["\n", " \n\t", "-- ':index_key\n", " -- a\n--b'\r\n "])


class Place(NamedTuple):
    """An expression of the select list; those with parameters tell what they must come to."""

    sql: str
    value: str | None = None


def commented(text: str) -> str:
    """Soup that can stand in a comment."""
    return text.replace("*", "").replace("/", "")


def plain(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def escaped(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def dollar(text: str) -> str:
    return f"$q1${text.replace('$', '')}$q1$"


def continued(text: str, line_break: str) -> str:
    """The second literal is read with the escapes of the first."""
    return "E'a'" + line_break + escaped(text)[1:]


def renamed(text: str) -> str:
    """A column whose quoted name holds the soup."""
    name = '"' + text.replace('"', '""') + 'c"'
    return f"(SELECT {name} FROM (SELECT 1) AS t ({name}))"


def place_of(name: str) -> st.SearchStrategy[Place]:
    forms = ["{}", "{}::text", "({})", "ARRAY[{}]::text[]", "max({})", "CASE WHEN {} IS NULL THEN '' ELSE {}::text END"]
    return st.sampled_from(forms).map(
        lambda form: Place(form.replace("{}", name), plain_array(BOUND[name]) if "ARRAY" in form else BOUND[name])
    )


def plain_array(value: str) -> str:
    """Return a list of one value as PostgreSQL writes it."""
    return f'{{"{value}"}}' if " " in value else f"{{{value}}}"


LITERALS = st.one_of(
    SOUP.map(plain),
    SOUP.map(escaped),
    SOUP.map(dollar),
    st.builds(continued, SOUP, BREAKS),
    SOUP.map(lambda text: "U&" + plain(text.replace("\\", ""))),
    SOUP.map(lambda text: plain(text) + "::text"),
    SOUP.map(renamed),
    st.just("(ARRAY[1, 2, 3])[1:index_key]"),
).map(Place)
SPACES = st.one_of(
    st.sampled_from([" ", "\n", "\t\n"]),
    SOUP.map(lambda text: "--" + text.replace("\n", "").replace("\r", "") + "\n"),
    SOUP.map(lambda text: f"/*{commented(text)}*/"),
    st.builds(lambda a, b: f"/*{commented(a)} /* {commented(b)} */ {commented(a)}*/", SOUP, SOUP),
)
ENDS = st.lists(st.one_of(SPACES, st.just(";")), max_size=3).map("".join)
PLACES = st.lists(st.one_of(LITERALS, *(place_of(name) for name in BOUND)), max_size=6)


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=PLACES, spaces=st.lists(SPACES, min_size=1, max_size=4), end=ENDS)
@example(places=[Place("E'a'\n'\\' :index_key'")], spaces=[" "], end="; -- :index_key")
def test_a_parameter_is_one_wherever_it_stands(
    engine: Engine, tmp_path: Path, places: list[Place], spaces: list[str], end: str
) -> None:
    literals = [f"({each.sql})::text" for each in places if each.value is None]
    every = [*places, *(Place(name, value) for name, value in BOUND.items())]
    columns = ",".join(
        f"{spaces[n % len(spaces)]}{each.sql}{spaces[n % len(spaces)]}AS c{n}" for n, each in enumerate(every)
    )
    source = "FROM (SELECT 2) AS one (index_key)"
    file = tmp_path / "query.sql"
    file.write_bytes(f"SELECT{spaces[0]}{columns}{spaces[0]}{source} GROUP BY index_key{end}".encode())
    with pool.transaction(engine) as connection:
        # The same literals and names, without a parameter anywhere that PostgreSQL could see.
        row = connection.execute(f"SELECT {', '.join([*literals, '1'])} {source}".encode()).fetchone()
    told = iter(row or ())
    query, asked = data.query_of(str(file)), checked([wanted(INDEX_KEY), wanted("OTHER")])
    content = data.read(engine, query, asked)[0]
    with data.stream(engine, query, asked[0]) as stream:
        streamed = b"".join(chunk.data for chunk in stream.chunks)
    assert content is not None
    assert content.data == streamed
    assert records(streamed) == [
        [f"c{number}" for number in range(len(every))],
        [str(next(told)) if each.value is None else each.value for each in every],
    ]
