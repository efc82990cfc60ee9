"""What we write in the binary form of a type is what PostgreSQL reads from the text."""

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.columns import binary_copy, binary_forms
from bulk_pipelines.columns.arrow import Column, compute
from bulk_pipelines.database import pool

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
DIGITS = st.text("0123456789", max_size=22)
NUMBERS = st.builds(
    "{}{}{}{}".format, st.sampled_from(["", "-"]), DIGITS.filter(bool), st.sampled_from(["", "."]), DIGITS
) | st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: f"{number:f}"[:40])
ODD_NUMBERS = st.sampled_from(
    [".5", "-.5", "5.", "007.10", "-0", "-0.00", "1e3", "NaN", "-Infinity", " 1", "+2", "0x1F", "9223372036854775808"]
)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(elements: Sequence[str | None]) -> str:
    return "{" + ",".join("NULL" if each is None else each for each in elements) + "}"


WORDS = st.lists(st.none() | TEXT.map(quoted) | st.sampled_from(["red", '"null"', "nUll", '""', "é"]), max_size=4)
KINDS: dict[str, st.SearchStrategy[str]] = {
    "numeric": NUMBERS | ODD_NUMBERS,
    "numeric(9,3)": st.decimals(-999_999, 999_999, places=3).map(str) | st.just("-0.5"),
    "json": st.sampled_from(['{"b": 1, "a": [null, 1.50]}', ' "é" ', "1"]),
    "jsonb": st.sampled_from(['{"b": 1, "a": [null, 1.50]}', ' "é" ', "1"]),
    "time": st.times().map(str) | st.sampled_from(["24:00:00", "12:30", "01:02:03.4"]),
    "bytea": st.binary(max_size=5).map(lambda data: r"\x" + data.hex()) | st.sampled_from([r"\xAbCd", r"a\\b"]),
    "text[]": WORDS.map(array) | st.sampled_from(["{{a,b},{c,d}}", "[0:1]={a,b}", "{ a , b }", r"{a\,b}", "{}"]),
    "varchar(3)[]": st.lists(st.sampled_from(["a", "bcd", '"e f"', "NULL"])).map(array),
    "char(3)[]": st.lists(st.sampled_from(["a", "bcd", '"e f"', "NULL"])).map(array),
    "integer[]": st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1).map(str)).map(array),
    "bigint[]": st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1).map(str)).map(array),
    "smallint[]": st.lists(st.none() | st.integers(-9, 9).map(str)).map(array),
    "double precision[]": st.lists(st.none() | st.floats().map(repr)).map(array),
    "real[]": st.lists(st.none() | st.floats(width=32).map(repr)).map(array),
    "numeric[]": st.lists(st.none() | st.decimals(-99, 99, places=2).map(str)).map(array),
    "date[]": st.lists(st.none() | st.dates().map(str)).map(array),
    "uuid[]": st.lists(st.none() | st.uuids().map(str)).map(array),
}


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list[str | None]]:
    count, times = draw(st.integers(1, 4)), draw(st.sampled_from([1, 5]))
    return {
        kind: draw(st.lists(st.none() | values, min_size=count, max_size=count)) * times
        for kind, values in KINDS.items()
    }


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(given_texts=columns())
def test_the_binary_form_is_what_the_text_means(engine: Engine, given_texts: dict[str, list[str | None]]) -> None:
    forms = {kind: form for kind, texts in given_texts.items() if (form := written(kind, texts)) is not None}
    count = len(given_texts["json"])
    names = {kind: f"c{number}" for number, kind in enumerate(forms)}
    with pool.transaction(engine) as connection:
        listed = "".join(f", {name} {kind}" for kind, name in names.items())
        connection.execute(f"CREATE TEMP TABLE target (n bigint{listed}) ON COMMIT DROP".encode())
        numbered = {"n": pa.array(range(count), pa.int64())} | {names[kind]: form for kind, form in forms.items()}
        binary_copy.copy(connection, sql.Identifier("target"), binary_copy.encode(numbered))
        for kind, name in names.items():
            found = connection.execute(f"SELECT {name}::text FROM target ORDER BY n".encode()).fetchall()
            query = f"SELECT value::{kind}::text FROM unnest(%s::text[]) WITH ORDINALITY AS given (value, n) ORDER BY n"
            assert found == connection.execute(query.encode(), [given_texts[kind]]).fetchall()


def written(kind: str, texts: list[str | None]) -> Column | None:
    """Write the values of a kind. What is left to PostgreSQL must not be of the plainest."""
    base = kind.replace("(9,3)", "").replace("varchar(3)", "character varying").replace("char(3)", "bpchar")
    # A null of Arrow may have bytes, which mean nothing.
    behind_nulls = pa.array(["{x,}", *("{y" if each is None else each for each in texts)])
    nulls = pa.array([True, *(each is None for each in texts)])
    sliced = compute.if_else(nulls, pa.scalar(None, pa.string()), behind_nulls)[1:]
    assert sliced.to_pylist() == texts
    form = binary_forms.written(sliced, base.replace("time", "time without time zone"))
    assert form is not None or any(map(is_odd, filter(None, texts))), texts
    return form


def is_odd(text: str) -> bool:
    digits = sum(map(str.isdigit, text))
    return (
        text == "24:00:00"
        or digits > len("1234567890123456")
        or any(character in text for character in '\\ +eExNI["')
        or text[0] == "{"
    )
