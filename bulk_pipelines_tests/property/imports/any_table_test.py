"""What an import into any table comes to is a function of the file and the table: it depends neither on the order of
the batches nor on whether the table has a place for where its rows come from."""

import csv
import io
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources import reflection
from bulk_pipelines_tests.scenes.import_runs import prepared
from bulk_pipelines_tests.scenes.today import examples

JOBS = itertools.count(1)
TABLE = """
CREATE SCHEMA IF NOT EXISTS odd;
DROP TABLE IF EXISTS odd.referred, odd.rows;
CREATE TABLE odd.referred (a integer, b text, UNIQUE (a, b));
INSERT INTO odd.referred VALUES (1, 'x'), (2, 'x'), (2, 'y');
CREATE TABLE odd.rows (
    id integer NOT NULL UNIQUE,
    number numeric(4, 1),
    place text,
    other integer CHECK (other <> 5),
    UNIQUE (number, place),
    FOREIGN KEY (other, place) REFERENCES odd.referred (a, b)
);
INSERT INTO odd.rows VALUES (1, 1.0, NULL, 7), (2, 2.5, 'x', 1), (3, NULL, 'q', NULL);
"""
COLUMNS = ("id", "number", "place", "other")
Row = tuple[str, str, str, str]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["1", "2", "4", "5", "6", "7", "8", "04", "", "1.5"]),
        st.just("") | st.sampled_from(["", "1", "1.0", "2.50", "3", "3.0", "3.05", "1e1", "1e-3", "x"]),
        st.sampled_from(["", "x", "y", "q"]),
        st.just("") | st.sampled_from(["", "1", "2", "5", "5", "7"]),
    ),
    min_size=1,
    max_size=30,
)


class Model:
    """The import as somebody would do it by hand: row by row, in the order of the file."""

    def __init__(self) -> None:
        self.table: list[tuple[Any, ...]] = [(1, 1.0, None, 7), (2, 2.5, "x", 1), (3, None, "q", None)]
        self.bad: dict[int, list[str]] = {}

    @staticmethod
    def number(text: str) -> float | None:
        return float(text) if text else None

    def insert(self, rows: list[Row]) -> None:
        owners: dict[tuple[Any, ...], int] = {}
        before = list(self.table)
        for line, (identity, number, place, other) in enumerate(rows, 2):
            codes = self.unreadable(identity, number)
            if codes:
                self.bad[line] = codes
                continue
            row = (int(identity), self.number(number), place or None, int(other) if other else None)
            keys = [("id", row[0])] + ([("pair", row[1], row[2])] if None not in row[1:3] else [])
            for key in keys:
                taken = any(key in self.keys(each) for each in before)
                if key in owners or taken:
                    codes.append("duplicate_key")
                owners.setdefault(key, line)
            if None not in row[2:4] and (row[3], row[2]) not in {(1, "x"), (2, "x"), (2, "y")}:
                codes.append("invalid_reference")
            if not codes and row[3] == 5:
                codes.append("refused_by_table")
            if codes:
                self.bad[line] = codes
            else:
                self.table.append(row)

    @staticmethod
    def keys(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [("id", row[0])] + ([("pair", row[1], row[2])] if None not in row[1:3] else [])

    @staticmethod
    def unreadable(identity: str, number: str) -> list[str]:
        codes = []
        if identity in {"", "1.5"}:
            codes.append("invalid_number" if identity else "missing_field")
        if number in {"3.05", "1e-3"}:
            codes.append("does_not_fit")
        elif number == "x":
            codes.append("invalid_number")
        # What our own checks have found is told alone: PostgreSQL is not asked about such a record.
        return ["missing_field"] if "missing_field" in codes else codes


def written(rows: list[Row]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    return text.getvalue()


@pytest.mark.parametrize("provenance", [False, True], ids=["without provenance", "with provenance"])
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, seed=st.integers(0, 1 << 30), size=st.integers(1, 9))
def test_inserts_come_to_what_the_file_says(
    engine: Engine, tmp_path: Path, provenance: bool, rows: list[Row], seed: int, size: int
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(written(rows))
    with pool.transaction(engine) as connection:
        connection.execute(TABLE.encode(), prepare=False)
        if provenance:
            connection.execute("SELECT trace_imports('odd.rows')")
        declared = reflection.reflect(connection, "odd.rows")
    run = prepared(
        engine,
        path,
        declared,
        Mode.INSERT,
        job_id=next(JOBS),
        range_bytes=60,
        rows=size,
        chance=random.Random(seed),
    )
    run.load().reconcile()
    model = Model()
    model.insert(rows)
    with pool.transaction(engine) as connection:
        found = connection.execute("SELECT id, number::float8, place, other FROM odd.rows ORDER BY id").fetchall()
    assert found == sorted(model.table)
    assert {line: sorted(codes) for line, codes in run.codes().items()} == {
        line: sorted(codes) for line, codes in model.bad.items()
    }
    assert run.counts.loaded == len(model.table) - 3
    assert run.counts.rejected == len(model.bad)
