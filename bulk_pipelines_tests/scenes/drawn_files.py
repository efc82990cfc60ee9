"""Files of the records of drawn tables, in every format. All values are texts as PostgreSQL writes them."""

import json
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet

from bulk_pipelines.exports.request import Format
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines_tests.scenes.drawn_tables import Drawn, Record

JSONS = {"json", "jsonb"}
AGAIN = [Format.CSV, Format.NDJSON, Format.JSON, Format.PARQUET]
"""Formats that bring back what they were given."""


def fit(table: Drawn, declared: Resource, format_: str) -> None:
    """Give the records what a file of this format says of them."""
    absent = [column for column in declared.columns if column.name not in table.given]
    table.given += [column.name for column in absent if column.needed_in_files]
    match format_:
        case "ndjson" | "json":
            # Each record may have other fields, so the file has every column that has no default.
            for column in absent:
                if not column.has_default and not column.needed_in_files:
                    table.given.append(column.name)
                    for record in table.records:
                        record[column.name] = None
        case "xlsx":
            # A cell without text is empty.
            for record in table.records:
                record.update({name: value or None for name, value in record.items()})
    if format_ in {"csv", "xlsx"}:
        # A line without any value is no record.
        table.records = [each for each in table.records if any(each[name] is not None for name in table.given)]


def as_csv(table: Drawn, path: Path) -> None:
    def field(text: str | None) -> str:
        return "" if text is None else '"' + text.replace('"', '""') + '"'

    lines = [map(field, table.given), *([field(record[name]) for name in table.given] for record in table.records)]
    path.write_text("".join(",".join(line) + "\n" for line in lines), newline="")


def json_of(table: Drawn, record: Record) -> str:
    """Write an object: fields without a value are there or not, and names have escapes or not."""
    names = [name for name in table.given if record is table.records[0] or record[name] is not None or len(name) % 3]
    return "{" + ", ".join(member(table, record, name) for name in names) + "}"


def member(table: Drawn, record: Record, name: str) -> str:
    value = record[name]
    shown = value if value is not None and table.kinds[name] in JSONS else json.dumps(value)
    return f"{json.dumps(name, ensure_ascii=table.seed % 2 == 0)}: {shown}"


def as_ndjson(table: Drawn, path: Path) -> None:
    path.write_text("".join(json_of(table, record) + "\n" for record in table.records))


def as_json(table: Drawn, path: Path) -> None:
    path.write_text("[" + ",\n".join(json_of(table, record) for record in table.records) + "]")


def as_parquet(table: Drawn, path: Path) -> None:
    columns = {name: pa.array([record[name] for record in table.records], pa.string()) for name in table.given}
    pyarrow.parquet.write_table(pa.table(columns), path)


def as_xlsx(table: Drawn, path: Path) -> None:
    book = openpyxl.Workbook()
    for column, name in enumerate(table.given, 1):
        for row, text in enumerate([name, *(record[name] for record in table.records)], 1):
            if text is not None:
                cell = book.active.cell(row, column)
                cell.value, cell.data_type = text, "s"
    book.save(path)


WRITERS: dict[str, Callable[[Drawn, Path], None]] = {
    "csv": as_csv,
    "ndjson": as_ndjson,
    "json": as_json,
    "parquet": as_parquet,
    "xlsx": as_xlsx,
}


def lines_of(table: Drawn, format_: str) -> list[int]:
    """Return the line, or the number, of each record."""
    lines, line = [], 2 if format_ in {"csv", "xlsx"} else 1
    for record in table.records:
        lines.append(line)
        line += 1 + (sum((record[name] or "").count("\n") for name in table.given) if format_ == "csv" else 0)
    return lines
