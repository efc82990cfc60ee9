"""Any file goes into any table: whatever the format and the options, the rows and the rejects are those that a slow
oracle says, and a preview shows the same before."""

import itertools
import shlex
import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import namespaces
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.formats.flags import flags_of, with_reading
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports import commands
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.report import printing
from bulk_pipelines.imports.report.preview import preview
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.resources import reflection
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes import any_files, any_table
from bulk_pipelines_tests.scenes.any_files import BAD, COLUMNS, Way
from bulk_pipelines_tests.scenes.whole_imports import imported

TABLE = 'public."Any Goods"'
WORDS = ["José Müller", 'say "hi"; twice', "a,b|c", "tab\there", "two\nlines", "'", "null", "{x}", "ünï", "-5"]
TEXT = st.sampled_from(WORDS)
GOOD: dict[str, st.SearchStrategy[Any]] = {
    "Id": st.integers(1, 12),
    "name": st.sampled_from(["Ann", "José Müller", 'Bob "B"', "Cy;Young"]),
    "price": st.none() | st.decimals(0, 99_999, places=2),
    "born": st.none() | st.dates(date(1950, 1, 1), date(2050, 1, 1)),
    "seen": st.none() | st.datetimes(datetime(1950, 1, 1), datetime(2050, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    "ok": st.none() | st.booleans(),
    "feeling": st.none() | st.sampled_from(["so so", "ümlaut", "it's; fine"]),
    "stock": st.integers(-99, 32_767),
    "note": st.none() | TEXT | st.just(""),
    "ratio": st.none() | st.floats(-1e6, 1e6).map(lambda number: round(number, 3)) | st.just(0.5),
    "extra": st.none() | st.dictionaries(TEXT, st.none() | st.integers(0, 9) | TEXT, min_size=1, max_size=2),
    "tags": st.none() | st.lists(st.none() | TEXT, max_size=3),
}
OTHERWISE = {"Id": "I-D", "name": "Na me", "price": "Prix (net)", "born": "Né", "stock": "STOCK", "note": "Remark"}
ALIKE = {"Id", "name", "stock"}


@st.composite
def goods(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for _ in range(draw(st.integers(1, 12))):
        good = {column: draw(values) for column, values in GOOD.items()}
        if draw(st.integers(0, 2)) == 0:
            column = draw(st.sampled_from(list(BAD)))
            good[column] = draw(st.sampled_from(BAD[column]))
        found.append(good)
    return found


@st.composite
def ways(draw: st.DrawFn, format_: str) -> Way:
    flags = st.booleans()
    as_text = draw(flags)
    called = draw(st.sets(st.sampled_from(list(OTHERWISE))))
    no_header = format_ in {"csv", "xlsx"} and draw(st.integers(0, 3)) == 0
    typed = format_ != "csv" and not as_text
    return Way(
        format_,
        draw(st.sampled_from(",;\t|")) if format_ == "csv" else ",",
        draw(st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16"])) if format_ == "csv" else "utf-8",
        decimal=draw(flags),
        dates=not typed and draw(flags),
        nulls=draw(st.sampled_from(["", "NULL", "n/a"])),
        no_header=no_header,
        skip_lines=draw(st.integers(0, 2)) if format_ in {"csv", "xlsx"} else 0,
        packed=draw(st.sampled_from(["", "", "zip", "gzip"])),
        typed=typed,
        headers={column: OTHERWISE[column] for column in called},
        told=frozenset(column for column in called if column not in ALIKE or draw(flags)),
        extra=draw(st.sampled_from(["", "ignore", "ignore_extra"])),
        constant=draw(flags),
        expression=draw(flags),
        without=draw(st.sets(st.sampled_from(["stock", "born", "tags"]), max_size=2).map(frozenset)),
    )


@pytest.fixture
def table(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(planning, "RANGE_BYTES", 300)
    with transaction(engine) as connection:
        namespaces.turn_to_theirs(connection)
        connection.execute(any_files.TABLE.encode(), prepare=False)
    return engine


NUMBERS = itertools.count()


@pytest.mark.parametrize("format_", ["csv", "ndjson", "json", "xlsx", "parquet", "arrow"])
@settings(
    max_examples=6, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_file_into_any_table(table: Engine, format_: str, data: st.DataObject) -> None:
    way, found = data.draw(ways(format_)), data.draw(goods())
    for option in way.options:
        event(f"{format_} {option}")
    with transaction(table) as connection:
        connection.execute(f'DELETE FROM {TABLE} WHERE "Id" <> 7'.encode())
        declared = reflection.reflect(connection, TABLE)
    reading = Reading.of(way.options)
    rows, reasons, by_value = any_table.expected(found, way)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"goods {next(NUMBERS)}"
        path.write_bytes(any_files.written(found, way))
        options = Options(declared.name, reading=reading, declaration=declared)
        check_preview(table, path, options, len(found), by_value)
        job = imported(table, declared.name, path, reading=reading, declaration=declared)
    with transaction(table) as connection:
        given = {each.line: [one["code"] for one in each.reasons] for each in rejects.every(connection, job.job_id)}
        stands = {row[0]: row for row in connection.execute(f"SELECT * FROM {TABLE}".encode())}
    assert given == {line: [code] for line, code in reasons.items()}, job.last_error
    assert stands == rows


def check_preview(engine: Engine, path: Path, options: Options, count: int, by_value: int) -> None:
    """See that a preview needs nothing else, shows each column's origin and what is rejected, and names the command
    that does it."""
    seen = preview(engine, options, RequestedFile.of(str(path)), current())
    assert (seen.problem, seen.remedy, seen.judged) == (None, {}, count)
    assert (seen.rejected, sum(seen.reasons.values())) == (by_value, by_value), seen.rejects
    assert len(seen.records) == min(10, count - by_value)
    assert len({each.column for each in seen.columns}) == len(seen.columns)
    assert {each.column for each in seen.columns} | set(seen.without) == set(COLUMNS)
    asked = [str(path), "--table", 'public."Any Goods"', "--preview", *flags_of(options.reading)]
    words = shlex.split(printing.command(commands.group.commands["file"].make_context("import", asked), seen.reading))
    params = commands.group.commands["file"].make_context("import", words[2:]).params
    assert (params["table"], params["resource"]) == ('public."Any Goods"', None)
    assert with_reading(params)["reading"] == options.reading
    assert list(printing.lines(seen, shlex.join(words)))
    assert Counter(seen.reasons).total() == by_value
    assert all(isinstance(each, str) or each is None for record in seen.records for each in record.values())


def test_the_oracle_knows_numbers() -> None:
    way = Way(decimal=True)
    assert any_files.text_of("price", Decimal("1234.50"), way) == "1.234,50"
