"""Reads exported files as a stranger would, and makes rows to export. Each format has a reader that is not ours."""

import io
import json
import re
import resource
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Engine

from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database import pool
from bulk_pipelines.exports.request import ExportRequest, Format
from bulk_pipelines.exports.streaming import Tally, never, read_by, stream
from bulk_pipelines.formats.xlsx_package import MAIN

Row = tuple[Any, ...]


def exported(engine: Engine, request: ExportRequest) -> bytes:
    return b"".join(stream(engine, request))


def exported_by(connections: int, engine: Engine, request: ExportRequest) -> bytes:
    return b"".join(read_by(connections, engine, request, never, Tally(), 0))


def stored(engine: Engine, request: ExportRequest) -> list[Row]:
    """Return the rows that the file should hold, in the order of the ids, read by PostgreSQL and psycopg alone."""
    names = ", ".join(column.name for column in request.columns)
    with pool.transaction(engine) as connection:
        connection.execute("SET LOCAL timezone = 'UTC'")
        found = connection.execute(f"SELECT {names} FROM {request.resource} ORDER BY id".encode()).fetchall()
    return [
        tuple(str(v) if c.kind is ColumnKind.UUID else v for c, v in zip(request.columns, row, strict=True))
        for row in found
    ]


def read(engine: Engine, request: ExportRequest, data: bytes) -> list[Row]:
    """Return the rows of an exported file, in the file's order."""
    names = [column.name for column in request.columns]
    match request.format:
        case Format.CSV:
            return read_csv(engine, request, data)
        case Format.NDJSON:
            lines = data.decode().split("\n")
            assert lines.pop() == ""
            return [from_json(request, json.loads(line)) for line in lines]
        case Format.JSON:
            return [from_json(request, record) for record in json.loads(data)]
        case Format.PARQUET:
            table = pq.read_table(pa.BufferReader(data))
            assert table.column_names == names
            return [tuple(record[name] for name in names) for record in table.to_pylist()]
        case Format.ARROW:
            table = pa.ipc.open_stream(data).read_all()
            assert table.column_names == names
            return [tuple(record[name] for name in names) for record in table.to_pylist()]
        case Format.XLSX:
            sheets = read_xlsx(data)
            assert all(sheet[0] == tuple(names) for sheet in sheets.values())
            return [from_cells(request, cells) for sheet in sheets.values() for cells in sheet[1:]]


def read_csv(engine: Engine, request: ExportRequest, data: bytes) -> list[Row]:
    """Read a CSV by PostgreSQL's own COPY into columns of text, because that tells an empty field from an empty
    text."""
    names = [column.name for column in request.columns]
    header, _, _ = data.partition(b"\n")
    assert header.decode() == ",".join(names)
    with pool.transaction(engine) as connection:
        columns = ", ".join(f"{name} text" for name in names)
        connection.execute(f"CREATE TEMPORARY TABLE read_back ({columns}, line bigserial) ON COMMIT DROP".encode())
        with connection.cursor().copy(
            f"COPY read_back ({', '.join(names)}) FROM STDIN (FORMAT csv, HEADER MATCH)".encode()
        ) as copy:
            copy.write(data)
        connection.execute("SET LOCAL timezone = 'UTC'")
        forms = {ColumnKind.TIMESTAMP: "::timestamptz", ColumnKind.BOOLEAN: "::boolean", ColumnKind.TEXT_LIST: "::json"}
        values = ", ".join(f"{c.name}{forms.get(c.kind, '')}" for c in request.columns)
        return connection.execute(f"SELECT {values} FROM read_back ORDER BY line".encode()).fetchall()


def from_json(request: ExportRequest, record: dict[str, Any]) -> Row:
    assert list(record) == [column.name for column in request.columns]
    return tuple(
        datetime.fromisoformat(record[column.name])
        if column.kind is ColumnKind.TIMESTAMP and record[column.name] is not None
        else record[column.name]
        for column in request.columns
    )


def from_cells(request: ExportRequest, cells: Row) -> Row:
    return tuple(
        json.loads(cell) if column.kind is ColumnKind.TEXT_LIST and cell is not None else cell
        for column, cell in zip(request.columns, cells, strict=True)
    )


def read_xlsx(data: bytes) -> dict[str, list[Row]]:
    """Return the rows of each sheet. The cells are read by the letter of the specification: by types, references and
    escapes, without guesses."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        workbook = ElementTree.fromstring(archive.read("xl/workbook.xml"))
        names = [sheet.attrib["name"] for sheet in workbook.iter(f"{{{MAIN}}}sheet")]
        return {
            name: list(rows_of_sheet(archive.open(f"xl/worksheets/sheet{number}.xml")))
            for number, name in enumerate(names, start=1)
        }


def rows_of_sheet(xml: Any) -> Iterator[Row]:
    width = 0
    for number, (_, row) in enumerate(
        (item for item in ElementTree.iterparse(xml) if item[1].tag == f"{{{MAIN}}}row"), start=1
    ):
        assert row.attrib["r"] == str(number)
        cells: dict[int, Any] = {}
        for cell in row:
            found = re.fullmatch(rf"([A-Z]+){number}", cell.attrib["r"])
            assert found
            cells[place(found[1])] = value_of_cell(cell)
        width = width or len(cells)
        yield tuple(cells.get(index) for index in range(width))
        row.clear()


def place(letters: str) -> int:
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - ord("A") + 1
    return index - 1


def value_of_cell(cell: ElementTree.Element) -> Any:
    if cell.attrib.get("t") == "inlineStr":
        text = cell.find(f"{{{MAIN}}}is/{{{MAIN}}}t")
        assert text is not None
        return re.sub("_x([0-9A-F]{4})_", lambda found: chr(int(found[1], 16)), text.text or "")
    value = cell.findtext(f"{{{MAIN}}}v")
    assert value is not None
    if cell.attrib.get("t") == "b":
        return value == "1"
    assert cell.attrib["s"] == "1", "a number is a time"
    return datetime(1899, 12, 30, tzinfo=UTC) + timedelta(milliseconds=round(float(value) * 86_400_000))


def insert(engine: Engine, table: str, rows: Iterable[dict[str, Any]]) -> None:
    with pool.transaction(engine) as connection:
        for row in rows:
            insert_one(connection, table, row)


def insert_one(connection: psycopg.Connection[Any], table: str, row: dict[str, Any]) -> None:
    places = ", ".join(["%s"] * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})".encode(), list(row.values()))


def insert_users(engine: Engine, rows: int) -> None:
    """Insert so many users, from `user-1@example.com` on, of about 140 bytes each."""
    with pool.transaction(engine) as connection:
        connection.execute(
            "INSERT INTO users (id, email, name, role, active, created_at, updated_at)"
            " SELECT md5(n::text)::uuid, 'user-' || n || '@example.com', 'User number ' || n,"
            " (ARRAY['admin', 'editor', 'author', 'reader'])[n %% 4 + 1], n %% 3 <> 0,"
            " timestamptz '2026-01-01' + n * interval '1 minute', timestamptz '2026-01-02' + n * interval '1 minute'"
            " FROM generate_series(1, %s) n",
            [rows],
        )


def exporting(connection: psycopg.Connection[Any], condition: str = "") -> int:
    """Return how many connections to this database are the export's own."""
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bulk export'"
        f" AND datname = current_database() {condition}".encode()
    ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def watching(engine: Engine) -> Iterator[psycopg.Connection[Any]]:
    """Provide a connection without a transaction, so that each of its statements sees what is true at its own
    moment."""
    with pool.single(engine.url.render_as_string(hide_password=False)) as connection:
        yield connection


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let writing a file beyond the size fail in this process, as on a disk that runs full."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def names_in(folder: Path) -> Sequence[str]:
    return sorted(path.name for path in folder.rglob("*"))
