"""Any file, cut anywhere and read in pieces of any size, gives the records that Python's own readers find in it."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.inspect.layout import Format, Layout
from bulk_pipelines.imports.plan.land.landed_file import LocalFile
from bulk_pipelines.imports.records import csv_parsing, json_parsing
from bulk_pipelines.resources.articles import ARTICLES
from bulk_pipelines_tests.scenes.small_pieces import pieces
from bulk_pipelines_tests.scenes.today import examples

COLUMNS = ("a", "b", "c")
BOM = b"\xef\xbb\xbf"

text = st.text(
    st.one_of(st.sampled_from('",\n\r é\ufeff'), st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)
fields = st.lists(st.tuples(text, text, text), min_size=1, max_size=12)
sizes = st.tuples(st.integers(1, 200), st.integers(1, 8), st.integers(1, 64))
few = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_csv(path: Path, found: Layout, size: tuple[int, int, int]) -> tuple[list[list[str]], list[int], list[int]]:
    """Return the good rows, their lines, and the lines of the others."""
    rows, lines, faults = [], [], []
    for block in pieces(path, found, size):
        parsed = csv_parsing.parse(block, COLUMNS)
        rows += [[value or "" for value in row.values()] for row in parsed.table.to_pylist()]
        lines += parsed.lines.tolist()
        faults += [int(block.spans.lines[record]) for record in parsed.faults]
    return rows, lines, sorted(faults)


@few
@given(
    rows=fields,
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
    size=sizes,
)
def test_valid_csv_gives_what_the_csv_module_reads(
    tmp_path: Path, rows: list[tuple[str, str, str]], quoting: Any, end: str, bom: bool, size: tuple[int, int, int]
) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, quoting=quoting, lineterminator=end).writerows(rows)
    path = tmp_path / "file.csv"
    path.write_bytes(BOM * bom + written.getvalue().encode())
    found = Layout(Format.CSV, COLUMNS, len(BOM) * bom, 1)
    compare(read_csv(path, found, size), written.getvalue(), False)


@few
@given(raw=st.text('a",\n\r\ufeff', min_size=1), size=sizes)
def test_any_text_is_split_as_the_csv_module_splits_it(tmp_path: Path, raw: str, size: tuple[int, int, int]) -> None:
    if not raw.strip("\r\n"):
        return
    path = tmp_path / "file.csv"
    path.write_bytes(raw.encode())
    compare(read_csv(path, Layout(Format.CSV, COLUMNS, 0, 1), size), raw, is_unclosed(raw))


def compare(found: tuple[list[list[str]], list[int], list[int]], raw: str, unclosed: bool) -> None:
    expected, places = by_csv_module(raw)
    good = [len(row) == len(COLUMNS) for row in expected]
    if unclosed:
        good[-1] = False
    rows, lines, faults = found
    assert rows == [row for row, is_good in zip(expected, good, strict=True) if is_good]
    assert lines == [line for line, is_good in zip(places, good, strict=True) if is_good]
    assert faults == [line for line, is_good in zip(places, good, strict=True) if not is_good]


def by_csv_module(raw: str) -> tuple[list[list[str]], list[int]]:
    """Return the rows that Python's csv finds and that are not blank, and the line that each begins on."""
    rows, lines = [], []
    reader = csv.reader(io.StringIO(raw, newline=""))
    begins = 1
    for row in reader:
        if row:
            rows.append(row)
            lines.append(begins)
        begins = reader.line_num + 1
    return rows, lines


def is_unclosed(raw: str) -> bool:
    """Whether another line would still be part of the last field."""
    return by_csv_module(raw + "\nz")[0][-1] != ["z"]


values = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))
objects = st.fixed_dictionaries(
    {},
    optional={
        "id": values,
        "slug": values,
        "title": values,
        "tags": st.one_of(st.none(), st.lists(st.text(max_size=5))),
    },
)


def read_json(path: Path, size: tuple[int, int, int]) -> tuple[list[dict[str, Any]], list[int], dict[int, Any]]:
    with LocalFile(path) as source:
        found = layout.inspect(source, ARTICLES)
    rows, lines = [], []
    faults: dict[int, Any] = {}
    for block in pieces(path, found, size):
        parsed = json_parsing.parse(block, ARTICLES)
        rows += [{name: value for name, value in row.items() if value is not None} for row in parsed.table.to_pylist()]
        lines += parsed.lines.tolist()
        faults |= {int(block.spans.lines[record]): reasons for record, reasons in parsed.faults.items()}
    return rows, lines, faults


def given_values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@few
@given(rows=st.lists(objects, min_size=1, max_size=12), blank=st.sampled_from(["", "\n", "  \n", "\r\n"]), size=sizes)
def test_ndjson_gives_what_the_json_module_reads(
    tmp_path: Path, rows: list[dict[str, Any]], blank: str, size: tuple[int, int, int]
) -> None:
    path = tmp_path / "file.ndjson"
    path.write_text("".join(f"{json.dumps(row)}\n{blank}" for row in rows), newline="")
    step = 2 if blank else 1
    expected = given_values(rows)
    assert read_json(path, size) == (expected, [1 + step * number for number in range(len(rows))], {})


@few
@given(
    rows=st.lists(objects, min_size=1, max_size=12),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    size=sizes,
)
def test_an_array_gives_what_the_json_module_reads(
    tmp_path: Path, rows: list[dict[str, Any]], indent: int | None, ascii_only: bool, size: tuple[int, int, int]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=ascii_only), newline="")
    assert read_json(path, size) == (given_values(rows), list(range(1, len(rows) + 1)), {})


SCRAPS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "null",
    "true",
    "1",
    '"id"',
    '"x"',
    "\\",
    " ",
    "\\u0000",
    "\\ud800",
    "-",
    "\n",
    "\r",
    "\t",
    "\v",
    "\f",
    "\ufeff",
]


@few
@given(data=st.data(), size=sizes)
def test_broken_json_is_told_line_by_line(tmp_path: Path, data: st.DataObject, size: tuple[int, int, int]) -> None:
    """Whatever stands on a line, the lines around it are read, and it is a row exactly if it is a fitting object."""
    lines = ['{"id": "1"}']
    for _ in range(data.draw(st.integers(1, 4))):
        line = '{"id": "x", "tags": ["y"], "slug": null}'
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(line)))
            scrap = data.draw(st.sampled_from(SCRAPS))
            line = line[:place] + scrap + line[place + data.draw(st.integers(0, 4)) :]
        lines += [*line.split("\n"), '{"id": "2"}']
    path = tmp_path / "file.ndjson"
    path.write_text("\n".join(lines), newline="")
    good = {number: json.loads(line) for number, line in enumerate(lines, 1) if is_fitting(line)}
    rows, places, faults = read_json(path, size)
    clean = [(line, row) for line, row in zip(places, rows, strict=True) if line not in faults]
    assert clean == [(number, given_values([row])[0]) for number, row in good.items()]
    assert sorted(faults) == [
        number for number, line in enumerate(lines, 1) if line.strip(" \t\r") and number not in good
    ]


@few
@given(data=st.data(), size=sizes)
def test_broken_elements_are_told_one_by_one(tmp_path: Path, data: st.DataObject, size: tuple[int, int, int]) -> None:
    """Whatever stands between two commas of an array, it is a row exactly if it is a fitting object."""
    elements = []
    for _ in range(data.draw(st.integers(1, 6))):
        element = data.draw(st.sampled_from(['{"id": "x\\u00e9", "tags": ["y"], "slug": null}', '{"id": "1"}']))
        for _ in range(data.draw(st.integers(0, 2))):
            place = data.draw(st.integers(0, len(element)))
            element = element[:place] + data.draw(st.sampled_from(HARMLESS)) + element[place:]
        elements.append(element)
    path = tmp_path / "file.json"
    path.write_text(f"[{','.join(elements)}]", newline="")
    good = {number: json.loads(each) for number, each in enumerate(elements, 1) if is_fitting(each)}
    rows, places, faults = read_json(path, size)
    clean = [(number, row) for number, row in zip(places, rows, strict=True) if number not in faults]
    assert clean == [(number, given_values([row])[0]) for number, row in good.items()]
    assert sorted(faults) == [number for number in range(1, len(elements) + 1) if number not in good]


HARMLESS = [" ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x1f", "\x85", "\u2028", "\ufeff", "1", "null", ":", "\\n"]
"""What moves no border between two elements, wherever it stands in one of them."""


def is_fitting(line: str) -> bool:
    try:
        record = json.loads(line, object_pairs_hook=once)
        json.dumps(record, ensure_ascii=False).encode()
    except ValueError:
        return False
    texts = isinstance(record, dict) and all(
        value is None or isinstance(value, str if name != "tags" else list) for name, value in record.items()
    )
    return (
        texts
        and set(record) <= set(ARTICLES.column_names)
        and all(isinstance(tag, str) or tag is None for tag in record.get("tags") or [])
    )


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)
