"""The rows of a file get the columns of a recipe, as the options say: fields are renamed or left out, constants and the
values of expressions are added, dates become ISO 8601, and numbers get a decimal point."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa
from sqlalchemy import Engine

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.files import expressions, values
from bulk_pipelines.formats.files.fields import alike, mapped, places_of, sql_names, with_hint
from bulk_pipelines.processing.intake.rows import UNREADABLE, Records, Row, Told, check_columns, unreadable
from bulk_pipelines.processing.request import Format

AT_ONCE = 1_000
"""How many rows are shaped together."""


@dataclass(frozen=True)
class Shape:
    """How fields become columns. `fields` are the fields of the file, `names` is what expressions call them, and
    `columns` says where each field goes; an empty text leaves it out."""

    fields: tuple[str, ...]
    names: tuple[str, ...]
    columns: Mapping[str, str]
    again: Sequence[tuple[str, str]]
    """Further columns, each with the field that it gets beside another one."""
    told: Told
    pool: Engine

    @property
    def made(self) -> list[str]:
        reading = self.told.reading
        return [column for column, _ in (*reading.constants, *reading.expressions)]

    def column(self, field: str) -> str:
        """Return the column that a field goes to. Records of JSON may have fields that the first record lacks."""
        return self.columns.get(field, "" if self.told.reading.ignore_extra and field not in self.wanted else field)

    @property
    def wanted(self) -> frozenset[str]:
        return self.told.columns

    def shaped(self, rows: Sequence[Row], first: int) -> list[Row]:
        """Return the rows, of which the first has this number."""
        found = [row if UNREADABLE in row else self.plain(row) for row in rows]
        wrong: dict[int, str] = {}
        self.express(rows, found, wrong)
        self.date(found, wrong)
        if self.told.reading.decimal:
            found = [row if UNREADABLE in row else with_points(row) for row in found]
        for place, said in wrong.items():
            found[place] = unreadable(said, first + place, json.dumps(rows[place], ensure_ascii=False))
        return found

    def plain(self, row: Row) -> Row:
        kept = {column: value for field, value in row.items() if (column := self.column(field))}
        return kept | {column: row.get(field) for column, field in self.again} | dict(self.told.reading.constants)

    def express(self, rows: Sequence[Row], found: list[Row], wrong: dict[int, str]) -> None:
        told = self.told.reading.expressions
        if not told:
            return
        pairs = zip(self.fields, self.names, strict=True)
        table = {name: pa.array([text_of(row.get(field)) for row in rows], pa.string()) for field, name in pairs}
        commas = self.made if self.told.reading.decimal else []
        made, failed = expressions.evaluate(self.pool, pa.table(table), told, commas)
        for column, texts in made.items():
            for row, text in zip(found, texts.to_pylist(), strict=True):
                if UNREADABLE not in row:
                    row[column] = text
        wrong |= {
            place: f"{column}: {said}" for place, (column, said) in failed.items() if UNREADABLE not in found[place]
        }

    def date(self, found: list[Row], wrong: dict[int, str]) -> None:
        for column, form in self.told.reading.dates:
            places = [place for place, row in enumerate(found) if isinstance(row.get(column), str) and row[column]]
            given = pa.array([found[place][column] for place in places], pa.string())
            for place, text in zip(places, values.dated(given, form).to_pylist(), strict=True):
                if text is None:
                    wrong.setdefault(place, f"{column}: {found[place][column][:100]!r} is no date of the form {form}")
                else:
                    found[place][column] = text


def opened(records: Records, told: Told, pool: Engine) -> Records:
    """Return the records with the columns that the options ask for."""
    reading = told.reading
    made = (*reading.constants, *reading.expressions)
    if not (made or reading.map or reading.ignore or reading.ignore_extra or reading.dates or reading.decimal):
        return records
    fields = list(records.columns)
    if records.format in {Format.JSON, Format.NDJSON}:  # each record may have other fields than the first one
        named = [*reading.ignore, *(field for _, field in reading.map)]
        fields += [each for each in dict.fromkeys(named) if alike(each) not in map(alike, fields)]
    again = [(column, fields[place]) for column, place in mapped(reading.map, fields)[1]]
    shape = Shape(tuple(fields), sql_names(fields), chosen(fields, told), again, told, pool)
    others = [column for column, _ in again]
    columns = tuple(dict.fromkeys([*filter(None, map(shape.column, fields)), *others, *shape.made]))
    check_columns(columns)
    for column, _ in reading.dates:
        if column not in columns:
            raise InvalidInput("dates", f"the rows have no column {with_hint(column, columns)}")
    expressions.check(pool, shape.names, reading.expressions)
    return replace(records, rows=rows_of(records, shape), columns=columns, peeked=[])


def chosen(fields: Sequence[str], told: Told) -> dict[str, str]:
    """Return where the fields go that the options name."""
    reading = told.reading
    found = {fields[place]: "" for field in reading.ignore for place in places_of(field, fields, "ignore")}
    found |= {fields[place]: column for place, column in mapped(reading.map, fields)[0].items()}
    for column, field in reading.map:
        if column in fields and column not in found and not reading.ignore_extra:
            raise InvalidInput("map", f"the file has a field {column}, too, beside {field}: --ignore {column}")
    made = [column for column, _ in (*reading.map, *reading.constants, *reading.expressions)]
    return {column: "" for column in made if column in fields} | found


def rows_of(records: Records, shape: Shape) -> Iterator[Row]:
    number, left = 1, iter(records)
    while rows := list(islice(left, AT_ONCE)):
        yield from shape.shaped(rows, number)
        number += len(rows)


def text_of(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def with_points(row: Row) -> Row:
    """Write the numbers of a row with a point: values that are numbers with a decimal comma or marks of thousands."""
    texts = [value if isinstance(value, str) and ("," in value or "." in value) else None for value in row.values()]
    if not any(texts):
        return row
    pointed = values.with_point(pa.array(texts, pa.string())).to_pylist()
    return {name: new or value for (name, value), new in zip(row.items(), pointed, strict=True)}
