"""The form of each format, to the letter; docs/exports.md says the same."""

import gzip
import io
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines.database import pool
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.read.preview import first_rows
from bulk_pipelines.exports.request import Compression, ExportRequest, Format
from bulk_pipelines_tests.scenes.export_files import exported, insert, read, read_xlsx, stored

ID = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
FIELDS = ("id", "title", "description", "tags", "published_at", "created_at")
MOMENT = datetime(2026, 1, 10, 12, 30, 0, 120_000, UTC)


@pytest.fixture
def filled(engine: Engine) -> Engine:
    insert(engine, "users", [{"id": ID, "email": "a@b.c", "name": "Ann", "role": "author", "active": True}])
    article = {
        "id": ID,
        "slug": "one",
        "title": 'Say "hello", world\nand more',
        "description": None,
        "body": "text",
        "author_id": ID,
        "tags": ["one", "two, three", 'q"'],
        "status": "draft",
        "created_at": MOMENT,
    }
    other = article | {"id": uuid.UUID(int=0), "slug": "two", "title": "=cmd()", "description": "", "tags": []}
    insert(engine, "articles", [article, other])
    return engine


def test_csv(filled: Engine) -> None:
    assert exported(filled, ExportRequest("articles", Format.CSV, FIELDS)).decode() == (
        "id,title,description,tags,published_at,created_at\n"
        '6ba7b810-9dad-11d1-80b4-00c04fd430c8,"Say ""hello"", world\nand more",,'
        '"[""one"",""two, three"",""q\\""""]",,2026-01-10 12:30:00.12+00\n'
        '00000000-0000-0000-0000-000000000000,=cmd(),"",[],,2026-01-10 12:30:00.12+00\n'
    )
    assert exported(filled, ExportRequest("users", Format.CSV, ("active", "name"))) == b"active,name\ntrue,Ann\n"


def test_ndjson(filled: Engine) -> None:
    assert exported(filled, ExportRequest("articles", Format.NDJSON, FIELDS)).decode() == (
        '{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","title":"Say \\"hello\\", world\\nand more","description":null,'
        '"tags":["one","two, three","q\\""],"published_at":null,"created_at":"2026-01-10T12:30:00.12+00:00"}\n'
        '{"id":"00000000-0000-0000-0000-000000000000","title":"=cmd()","description":"",'
        '"tags":[],"published_at":null,"created_at":"2026-01-10T12:30:00.12+00:00"}\n'
    )


def test_json(filled: Engine) -> None:
    lines = exported(filled, ExportRequest("articles", Format.NDJSON)).decode().splitlines()
    assert exported(filled, ExportRequest("articles", Format.JSON)).decode() == f"[\n{lines[0]},\n{lines[1]}\n]\n"


def test_parquet(filled: Engine) -> None:
    data = exported(filled, ExportRequest("articles", Format.PARQUET, FIELDS))
    table = pq.read_table(pa.BufferReader(data))
    moment, text = pa.timestamp("us", tz="UTC"), pa.string()
    assert table.schema.types == [text, text, text, pa.list_(text), moment, moment]
    assert table.to_pylist()[0] == {
        "id": str(ID),
        "title": 'Say "hello", world\nand more',
        "description": None,
        "tags": ["one", "two, three", 'q"'],
        "published_at": None,
        "created_at": MOMENT,
    }


def test_xlsx(filled: Engine) -> None:
    assert read_xlsx(exported(filled, ExportRequest("articles", Format.XLSX, FIELDS))) == {
        "articles": [
            FIELDS,
            (str(ID), 'Say "hello", world\nand more', None, '["one","two, three","q\\""]', None, MOMENT),
            (str(uuid.UUID(int=0)), "=cmd()", "", "[]", None, MOMENT),
        ]
    }


EMPTY = {
    Format.CSV: b"id,name\n",
    Format.NDJSON: b"",
    Format.JSON: b"[]\n",
}


@pytest.mark.parametrize("format_", Format)
def test_no_rows_are_a_valid_file(engine: Engine, format_: Format) -> None:
    request = ExportRequest("users", format_, ("id", "name"))
    data = exported(engine, request)
    assert data == EMPTY.get(format_, data)
    assert read(engine, request, data) == []
    if format_ is Format.PARQUET:
        assert pq.read_schema(pa.BufferReader(data)).names == ["id", "name"]


@pytest.mark.parametrize("format_", [Format.CSV, Format.NDJSON, Format.JSON])
def test_compressed(filled: Engine, format_: Format) -> None:
    plain = exported(filled, ExportRequest("articles", format_))
    zipped = exported(filled, ExportRequest("articles", format_, compression=Compression.GZIP))
    assert gzip.decompress(zipped) == plain
    assert zipped == exported(filled, ExportRequest("articles", format_, compression=Compression.GZIP))
    assert zstd.decompress(exported(filled, ExportRequest("articles", format_, compression=Compression.ZSTD))) == plain


@pytest.mark.parametrize(
    ("compression", "codec"), [(Compression.NONE, "ZSTD"), (Compression.GZIP, "GZIP"), (Compression.ZSTD, "ZSTD")]
)
def test_parquet_is_compressed_inside(filled: Engine, compression: Compression, codec: str) -> None:
    request = ExportRequest("articles", Format.PARQUET, compression=compression)
    data = exported(filled, request)
    assert pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).compression == codec
    assert sorted(read(filled, request, data)) == stored(filled, request)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_text_that_starts_like_a_formula_can_be_escaped(filled: Engine, start: str) -> None:
    with pool.transaction(filled) as connection:
        connection.execute("UPDATE users SET name = %s", [f"{start}1+1"])
    request = ExportRequest.parse({"resource": "users", "fields": "name,email", "escape_formulas": True})
    assert read(filled, request, exported(filled, request)) == [(f"'{start}1+1", "a@b.c")]
    plain = ExportRequest.parse({"resource": "users", "fields": "name,email"})
    assert read(filled, plain, exported(filled, plain)) == [(f"{start}1+1", "a@b.c")]


def test_escaping_leaves_other_text_alone(filled: Engine) -> None:
    request = ExportRequest.parse({"resource": "articles", "fields": "description,slug,tags", "escape_formulas": True})
    assert read(filled, request, exported(filled, request)) == [
        (None, "one", ["one", "two, three", 'q"']),
        ("", "two", []),
    ]


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "294247-01-10 04:00:54.775808+00"])
def test_times_beyond_a_formats_reach_are_an_error_and_never_another_time(engine: Engine, moment: str) -> None:
    insert(engine, "users", [{"id": ID, "email": "a@b.c", "name": "Ann", "role": "author", "created_at": moment}])
    for format_ in (Format.PARQUET, Format.XLSX):
        with pytest.raises(InvalidInput, match=r"^created_at: .* infinity, or a time after 294247-01-10"):
            exported(engine, ExportRequest("users", format_))
    assert exported(engine, ExportRequest("users", Format.CSV, ("created_at",))).decode() == f"created_at\n{moment}\n"
    told = json.loads(exported(engine, ExportRequest("users", Format.NDJSON, ("created_at",))))["created_at"]
    assert told.replace("T", " ").removesuffix(":00") == moment


def test_times_before_christ(engine: Engine) -> None:
    insert(
        engine, "users", [{"id": ID, "email": "a@b.c", "name": "Ann", "role": "author", "created_at": "0044-03-15 BC"}]
    )
    data = exported(engine, ExportRequest("users", Format.PARQUET, ("created_at",)))
    assert pq.read_table(pa.BufferReader(data))["created_at"].cast(pa.int64()).to_pylist() == [-63_517_824_000_000_000]
    assert (
        exported(engine, ExportRequest("users", Format.CSV, ("created_at",)))
        == b"created_at\n0044-03-15 00:00:00+00 BC\n"
    )


@pytest.fixture
def latin(database_url: str) -> Iterator[Engine]:
    """A database whose sessions are not in UTF-8 when they begin."""
    with pool.single(database_url) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET client_encoding = 'LATIN1'").format(name))
    made = pool.connect(database_url)
    yield made
    made.dispose()


@pytest.mark.parametrize("format_", Format)
def test_files_are_utf8_whatever_a_session_is_in(latin: Engine, format_: Format) -> None:
    insert(latin, "users", [{"id": ID, "email": "a@b.c", "name": "Größe", "role": "author"}])
    data = exported(latin, ExportRequest("users", format_, ("name",)))
    match format_:
        case Format.PARQUET:
            assert pq.read_table(pa.BufferReader(data)).to_pylist() == [{"name": "Größe"}]
        case Format.ARROW:
            assert pa.ipc.open_stream(data).read_all().to_pylist() == [{"name": "Größe"}]
        case Format.XLSX:
            assert read_xlsx(data)["users"][1:] == [("Größe",)]
        case _:
            assert "Größe" in data.decode()


def test_the_first_rows_to_look_at(filled: Engine) -> None:
    request = ExportRequest.parse(
        {"resource": "articles", "format": "xlsx", "fields": "slug,tags,created_at", "order": "slug"}
    )
    with pool.transaction(filled) as connection:
        assert first_rows(connection, request, rows=1) == [
            {"slug": "one", "tags": ["one", "two, three", 'q"'], "created_at": "2026-01-10T12:30:00.12+00:00"}
        ]
        assert first_rows(connection, request, rows=0) == []
