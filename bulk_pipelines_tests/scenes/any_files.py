"""Goods, in files of every format and with every option that tells how a file is read."""

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet

from bulk_pipelines_tests.scenes.people_files import zipped

TABLE = """
SET LOCAL search_path = public;
CREATE TYPE mood AS ENUM ('so so', 'ümlaut', 'it''s; fine');
CREATE DOMAIN price AS numeric(10, 2) CONSTRAINT price_is_no_loss CHECK (VALUE >= 0);
CREATE TABLE "Any Goods" (
    "Id" integer PRIMARY KEY, name text NOT NULL, price price, born date, seen timestamptz, ok boolean, feeling mood,
    stock smallint NOT NULL DEFAULT 5, note text, ratio double precision, extra jsonb, tags text[]
);
INSERT INTO "Any Goods" VALUES (7, 'held');
"""
COLUMNS = ("Id", "name", "price", "born", "seen", "ok", "feeling", "stock", "note", "ratio", "extra", "tags")
TEXTUAL = ("csv", "ndjson", "json")


@dataclass(frozen=True)
class Bad:
    """A value that is none, and the code of the reason. What only the table can tell is told last: `late`."""

    given: Any
    code: str
    late: bool = False


BAD: dict[str, list[Bad]] = {
    "Id": [Bad("x", "invalid_number"), Bad(2**31, "invalid_number")],
    "name": [Bad(None, "missing_field")],
    "price": [
        Bad(Decimal("1.005"), "does_not_fit"),
        Bad("much", "invalid_number"),
        Bad(Decimal(-1), "refused_by_table", late=True),
    ],
    "born": [Bad("2026-02-30", "invalid_date")],
    "seen": [Bad("now-ish", "invalid_timestamp")],
    "ok": [Bad("maybe", "invalid_boolean")],
    "feeling": [Bad("lost", "invalid_value")],
    "stock": [Bad(40_000, "invalid_number"), Bad(None, "missing_field")],
    "ratio": [Bad("half", "invalid_number")],
    "extra": [Bad("{a}", "invalid_json")],
    "tags": [Bad("{a", "invalid_array")],
}
Good = Mapping[str, Any]
"""A record: for each column its value, or a `Bad` one."""


@dataclass(frozen=True)
class Way:
    """How a file is written, and what is told of it."""

    format: str = "csv"
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: bool = False
    dates: bool = False
    nulls: str = ""
    no_header: bool = False
    skip_lines: int = 0
    packed: str = ""
    typed: bool = True
    """Whether a table has columns of the types of the values; otherwise all are texts."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The columns that are called otherwise in the file, each with its name there."""
    told: frozenset[str] = frozenset()
    """The renamed columns that `map` tells; the others are alike."""
    extra: str = ""
    """How a field is left out that fits no column: ignore, ignore_extra, or there is none."""
    constant: bool = False
    expression: bool = False
    without: frozenset[str] = frozenset()
    """The columns that the file does not have."""

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The columns of the file, each with its name there. The name of a good may be made of two fields."""
        found = [
            (column, self.headers.get(column, column))
            for column in COLUMNS
            if column not in self.without
            and not (column == "note" and self.constant)
            and not (column == "name" and self.expression)
        ]
        found += [("first", "First Part"), ("last", "Last-Part")] if self.expression else []
        return found + ([("surplus", "Not wanted")] if self.extra else [])

    @property
    def options(self) -> dict[str, Any]:
        """The options with which the file is read."""
        options: dict[str, Any] = {
            "map": {column: name for column, name in self.fields if column in self.told},
            "constants": {"note": "a constant"} if self.constant else {},
            "expressions": {"name": "first_part || coalesce(' ' || last_part, '')"} if self.expression else {},
        }
        if self.extra:
            options |= {"ignore_extra": True} if self.extra == "ignore_extra" else {"ignore": ["Not wanted"]}
        if self.nulls:
            options["nulls"] = [self.nulls]
        if self.decimal:
            options["decimal"] = ","
        if self.dates and any(column == "born" for column, _ in self.fields):
            options["dates"] = {"born": "%d.%m.%Y"}
        if self.format == "csv":
            options |= {"delimiter": self.delimiter}
            options |= {} if self.encoding in {"utf-8", "utf-8-sig", "utf-16"} else {"encoding": self.encoding}
        if self.format in {"csv", "xlsx"}:
            options |= {"skip_lines": self.skip_lines} if self.skip_lines else {}
            if self.no_header:
                options |= {"no_header": True, "fields": [name for _, name in self.fields]}
        return options


def values_of(good: Good, way: Way) -> dict[str, Any]:
    """Return what stands in the fields of a record."""
    found = {column: value.given if isinstance(value, Bad) else value for column, value in good.items()}
    if way.expression:
        first, _, last = (found["name"] or "").partition(" ")
        found |= {"first": first if found["name"] is not None else None, "last": last or None}
    return {column: found.get(column, "surplus") for column, _ in way.fields}


def text_of(column: str, value: Any, way: Way) -> str | None:
    """Write a value as it stands in a text."""
    text: str | None = str(value)
    match value:
        case None:
            text = way.nulls or None
        case Decimal() | float() if way.decimal and column in {"price", "ratio"}:
            text = with_comma(str(value))
        case datetime():
            text = value.isoformat()
        case date():
            text = value.strftime("%d.%m.%Y") if way.dates else value.isoformat()
        case bool():
            text = str(value).lower()
        case dict():
            text = json.dumps(value, ensure_ascii=False)
        case list():
            text = "{" + ",".join("NULL" if each is None else element_of(each) for each in value) + "}"
    return text


def element_of(text: str) -> str:
    """Write an element of an array as PostgreSQL does, where a backslash stands before the character itself."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


def with_comma(number: str) -> str:
    """Write a number as many people do: 1.234,5."""
    whole, point, rest = number.partition(".")
    grouped = f"{whole[0]}.{whole[1:]}" if len(whole) == 4 and whole.isdigit() else whole
    return grouped + ("," + rest if point else "")


def csv_of(goods: Sequence[Good], way: Way) -> bytes:
    quote = '"'
    mark = way.delimiter

    def field_of(text: str | None) -> str:
        if text is None or (way.nulls and text == way.nulls):
            return text or ""
        return quote + text.replace(quote, quote * 2) + quote

    lines = [f"a line of preamble {number}" for number in range(way.skip_lines)]
    lines += [] if way.no_header else [mark.join(field_of(name) for _, name in way.fields)]
    for good in goods:
        lines.append(mark.join(field_of(text_of(column, value, way)) for column, value in values_of(good, way).items()))
    return "".join(line + "\r\n" for line in lines).encode(way.encoding)


def json_value(column: str, value: Any, way: Way) -> str:
    """Write a value as JSON, with its numbers as they are."""
    if isinstance(value, Decimal) and way.typed:
        return str(value)
    if value is None and way.nulls:
        return json.dumps(way.nulls)
    if value is None or (way.typed and isinstance(value, bool | int | dict | list)):
        return json.dumps(value, ensure_ascii=False)
    if way.typed and isinstance(value, float):
        return json.dumps(value)
    return json.dumps(text_of(column, value, replace(way, nulls="")), ensure_ascii=False)


def json_of(goods: Sequence[Good], way: Way) -> bytes:
    names = dict(way.fields)
    records = [
        "{"
        + ", ".join(
            f"{json.dumps(names[column], ensure_ascii=False)}: {json_value(column, value, way)}"
            for column, value in values_of(good, way).items()
        )
        + "}"
        for good in goods
    ]
    if way.format == "ndjson":
        return "".join(record + "\n" for record in records).encode()
    return ("[" + ",\n".join(records) + "]").encode()


def xlsx_of(goods: Sequence[Good], way: Way) -> bytes:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Goods")
    for number in range(way.skip_lines):
        sheet.append([f"a row of preamble {number}"])
    if not way.no_header:
        sheet.append([name for _, name in way.fields])
    for good in goods:
        sheet.append([cell_of(column, value, way) for column, value in values_of(good, way).items()])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def cell_of(column: str, value: Any, way: Way) -> Any:
    number = way.typed and isinstance(value, int | float | Decimal)
    # The library writes 16 digits, and so turns some numbers, such as 918.57, into others.
    plain = number and float(f"{float(value):.16g}") == float(value)
    if plain or (way.typed and type(value) is date and value.year > 1900 and not way.dates):
        return value
    return text_of(column, value, way)


TYPES: dict[str, Any] = {
    "Id": pa.int64(),
    "price": pa.decimal128(12, 4),
    "born": pa.date32(),
    "seen": pa.timestamp("us", tz="UTC"),
    "ok": pa.bool_(),
    "feeling": pa.dictionary(pa.int8(), pa.string()),
    "stock": pa.int32(),
    "ratio": pa.float64(),
    "tags": pa.list_(pa.string()),
}


def arrow_of(goods: Sequence[Good], way: Way) -> bytes:
    rows = [values_of(good, way) for good in goods]
    columns = {name: column_of(column, [row[column] for row in rows], way) for column, name in way.fields}
    table = pa.table(columns)
    out = io.BytesIO()
    if way.format == "parquet":
        pyarrow.parquet.write_table(table, out, row_group_size=5)
    else:
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    return out.getvalue()


def column_of(column: str, values: list[Any], way: Way) -> Any:
    """Return a column of the type of its values; of texts, if some value is not of that type."""
    # Arrow would take a text for the list of its characters.
    is_text = column == "tags" and any(isinstance(value, str) for value in values)
    if way.typed and column in TYPES and not (way.dates and column == "born") and not is_text:
        try:
            return pa.array(values, TYPES[column])
        except (pa.ArrowException, TypeError, ValueError):
            pass
    return pa.array([text_of(column, value, way) for value in values], pa.string())


def written(goods: Sequence[Good], way: Way) -> bytes:
    data = {
        "csv": csv_of,
        "ndjson": json_of,
        "json": json_of,
        "xlsx": xlsx_of,
        "parquet": arrow_of,
        "arrow": arrow_of,
    }[way.format](goods, way)
    if way.packed == "zip":
        return zipped((f"goods.{way.format}", data))
    return gzip.compress(data) if way.packed == "gzip" else data


def lines_of(goods: Sequence[Good], way: Way) -> list[int]:
    """Return the first line of each record, or its number. Of these files, only CSV has records of several lines."""
    line = 1 + way.skip_lines + (0 if way.no_header or way.format not in {"csv", "xlsx"} else 1)
    lines = []
    for good in goods:
        lines.append(line)
        texts = [text_of(column, value, way) or "" for column, value in values_of(good, way).items()]
        line += 1 + (sum(text.count("\n") for text in texts) if way.format == "csv" else 0)
    return lines
