"""Spellings of no value in files with an escape character, such as MySQL's \\N: an import and the rows of a recipe read
what a reader does that goes from character to character."""

import io
import re
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.plan.inspect.dialect import Dialect
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.records import csv_parsing
from bulk_pipelines.processing.intake import csv_records
from bulk_pipelines.processing.intake.csv_records import of_csv
from bulk_pipelines.processing.intake.rows import Told
from bulk_pipelines_tests.scenes.small_pieces import pieces
from bulk_pipelines_tests.scenes.today import examples

COLUMNS = ("a", "b", "c")
LETTERS = ["\\", "N", "x", ";", "\t", "'", "\n", "\r", "é", "-", "\x01", ","]


@dataclass(frozen=True)
class Field:
    """A value, how it stands in the file, and whether that is in quotes."""

    value: str
    spelt: str
    quoted: bool


@st.composite
def fields(draw: st.DrawFn, dialect: Dialect) -> Field:
    text = draw(st.text(st.sampled_from(LETTERS), max_size=4))
    quoted = dialect.quote is not None and draw(st.booleans())
    special = {dialect.escape, dialect.delimiter, dialect.quote, *([] if quoted else ["\n", "\r"])}
    spelt = "".join(f"\\{mark}" if mark in special or (mark == "N" and draw(st.booleans())) else mark for mark in text)
    return Field(text, f"{dialect.quote}{spelt}{dialect.quote}" if quoted else spelt, quoted)


@st.composite
def files(draw: st.DrawFn) -> tuple[Dialect, list[list[Field]]]:
    nulls = draw(
        st.lists(
            st.sampled_from(["\\N", "N", "-", "\\x", "é", "x\\N", "'N'", "''"]), min_size=1, max_size=3, unique=True
        )
    )
    dialect = Dialect(draw(st.sampled_from(";\t,")), draw(st.sampled_from([None, "'"])), "\\", tuple(nulls))
    row = st.lists(fields(dialect), min_size=len(COLUMNS), max_size=len(COLUMNS))
    return dialect, draw(st.lists(row, min_size=1, max_size=6))


MYSQL = (
    Dialect("\t", None, "\\", ("\\N",)),
    [
        [Field("N", "\\N", quoted=False), Field("N", "N", quoted=False), Field("\\N", "\\\\N", quoted=False)],
        [Field("x\ty", "x\\\ty", quoted=False), Field("\n", "\\\n", quoted=False), Field("N", "\\N", quoted=False)],
    ],
)

EMPTY = [Field("", "", quoted=False)] * 2
RETURN = (Dialect(";", None, "\\", ("N",)), [[*EMPTY, Field("\r", "\\\r", quoted=False)]] * 2)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=files(), size=st.tuples(st.integers(1, 200), st.integers(1, 8), st.integers(1, 64)))
@example(drawn=MYSQL, size=(200, 8, 64))
@example(drawn=RETURN, size=(1, 1, 1))
def test_spellings_are_compared_as_they_stand(
    tmp_path: Path, drawn: tuple[Dialect, list[list[Field]]], size: tuple[int, int, int]
) -> None:
    dialect, rows = drawn
    texts = [dialect.delimiter.join(field.spelt for field in row) + "\n" for row in rows]
    text = "".join(texts)
    meant = [
        [None if not field.quoted and field.spelt in dialect.nulls else field.value for field in row] for row in rows
    ]

    path = tmp_path / "file.csv"
    path.write_bytes(text.encode())
    found, lines = [], []
    for block in pieces(path, Layout(Format.CSV, COLUMNS, 0, 1, dialect=dialect), size):
        parsed = csv_parsing.parse(block, COLUMNS, dialect)
        assert not parsed.faults
        found += [list(row.values()) for row in parsed.table.to_pylist()]
        lines += parsed.lines.tolist()
    # To an import, an empty field that is not quoted is no value.
    assert found == [
        [None if field.spelt == "" else value for field, value in zip(row, values, strict=True)]
        for row, values in zip(rows, meant, strict=True)
    ]
    assert lines == [1 + len(re.findall("\r\n|\r|\n", "".join(texts[:number]))) for number in range(len(rows))]

    reading = Reading(
        delimiter=dialect.delimiter,
        quote=dialect.quote or "",
        escape=dialect.escape,
        nulls=dialect.nulls,
        no_header=True,
        fields=COLUMNS,
    )
    records = of_csv(io.StringIO(text, newline="\n"), Told(reading=reading))
    assert [list(row.values()) for row in records.rows] == meant


def test_a_record_with_a_wrong_number_of_fields_and_nothing_in_one_of_them() -> None:
    table, misfits = csv_parsing.read(b"1,\\N,3\n2,x\n", ("a", "b"), Dialect(escape="\\", nulls=("\\N",)))
    assert table.to_pylist() == [{"a": "2", "b": "x"}]
    assert [(row, reason.code) for row, reason in misfits] == [(0, "malformed_record")]


def test_an_empty_field_at_the_end_of_a_file_without_a_newline() -> None:
    for escape in (None, "\\"):
        table, _ = csv_parsing.read(b'1,2\n"x",', ("a", "b"), Dialect(escape=escape))
        assert table.to_pylist() == [{"a": "1", "b": "2"}, {"a": "x", "b": None}]


def test_an_escaped_end_of_a_line_is_part_of_the_last_field() -> None:
    dialect = csv_records.Dialect(",", '"', "\\")
    assert csv_records.as_spelt("a,\\\n\r\n", dialect) == ["a", "\\\n"]
    assert csv_records.as_spelt("a,\\\r\n", dialect) == ["a", "\\\r"]
