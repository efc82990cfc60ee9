"""The same users in files as people have them: written by pandas, openpyxl, XlsxWriter, pyarrow and Python's csv."""

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pandas
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

User = Mapping[str, Any]
COLUMNS = ("id", "email", "name", "role", "active", "created_at")


def users(
    count: int, names: Sequence[str] = ("José Müller", 'say "hi"; twice', "two\nlines", "tab\there, too")
) -> list[User]:
    return [
        {
            "id": f"{number:08x}-0000-4000-8000-000000000000",
            "email": f"user{number}@example.org",
            "name": names[number % len(names)],
            "role": ("reader", "author")[number % 2],
            "active": number % 3 > 0,
            "created_at": pandas.Timestamp(2026, 1, 1 + number % 28, 12, 30, 5),
        }
        for number in range(count)
    ]


def text_of(found: Sequence[User], **options: Any) -> str:
    out = io.StringIO()
    writer = csv.writer(out, **options)
    writer.writerow(COLUMNS)
    writer.writerows([str(value) for value in user.values()] for user in found)
    return out.getvalue()


def frame(found: Sequence[User]) -> pandas.DataFrame:
    return pandas.DataFrame(found, columns=list(COLUMNS))


def zipped(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def workbook(found: Sequence[User], *, engine: str) -> bytes:
    out = io.BytesIO()
    frame(found).to_excel(out, index=False, engine=engine)
    return out.getvalue()


def inline_workbook(found: Sequence[User]) -> bytes:
    """Write as openpyxl does without memory: every text stands in its cell."""
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Users")
    sheet.append(list(COLUMNS))
    for user in found:
        sheet.append(list(user.values()))
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def parquet(found: Sequence[User], **options: Any) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame(found), preserve_index=False), out, **options)
    return out.getvalue()


def feather(found: Sequence[User]) -> bytes:
    out = io.BytesIO()
    pyarrow.feather.write_feather(frame(found), out)
    return out.getvalue()


def stream(found: Sequence[User]) -> bytes:
    out = io.BytesIO()
    table = pa.Table.from_pandas(
        frame(found).assign(role=lambda each: each.role.astype("category")), preserve_index=False
    )
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return out.getvalue()


def csv_text(found: Sequence[User]) -> bytes:
    return text_of(found).encode()


WAYS: dict[str, tuple[Callable[[Sequence[User]], bytes], dict[str, Any]]] = {
    "comma": (csv_text, {}),
    "semicolon, Excel's way": (lambda found: text_of(found, delimiter=";").encode("utf-8-sig"), {}),
    "cp1252": (lambda found: text_of(found, delimiter=";").encode("cp1252"), {"encoding": "cp1252"}),
    "latin-1 with tabs": (lambda found: text_of(found, delimiter="\t").encode("latin-1"), {"encoding": "latin-1"}),
    "utf-16 with tabs": (lambda found: text_of(found, delimiter="\t").encode("utf-16"), {}),
    "utf-16-be": (lambda found: text_of(found).encode("utf-16-be"), {"encoding": "utf-16-be"}),
    "utf-32": (lambda found: text_of(found).encode("utf-32"), {}),
    "pipe, single quotes": (lambda found: text_of(found, delimiter="|", quotechar="'").encode(), {"quote": "'"}),
    "escaped": (
        lambda found: text_of(found, doublequote=False, escapechar="\\", lineterminator="\n").encode(),
        {"escape": "\\"},
    ),
    "everything quoted": (lambda found: text_of(found, quoting=csv.QUOTE_ALL, delimiter=";").encode(), {}),
    "pandas": (lambda found: frame(found).to_csv(index=False, sep=";").encode(), {}),
    "gzip": (lambda found: gzip.compress(csv_text(found)), {}),
    "bzip2": (lambda found: bz2.compress(csv_text(found)), {}),
    "xz": (lambda found: lzma.compress(csv_text(found)), {}),
    "zip": (lambda found: zipped(("users.csv", csv_text(found)), ("__MACOSX/._users.csv", b"x")), {}),
    "zip of many": (
        lambda found: zipped(
            ("a/1.csv", csv_text(found[:10])),
            ("../2.xlsx", workbook(found[10:20], engine="openpyxl")),
            ("3.parquet", parquet(found[20:])),
        ),
        {},
    ),
    "openpyxl": (lambda found: workbook(found, engine="openpyxl"), {}),
    "xlsxwriter": (lambda found: workbook(found, engine="xlsxwriter"), {}),
    "inline texts": (inline_workbook, {}),
    "parquet": (parquet, {}),
    "parquet, zstd, small groups": (lambda found: parquet(found, compression="zstd", row_group_size=5), {}),
    "feather": (feather, {}),
    "arrow stream": (stream, {}),
    "ndjson": (
        lambda found: "".join(pandas.Series(dict(user)).to_json(date_format="iso") + "\n" for user in found).encode(),
        {},
    ),
}
"""Ways to write users, each with the options that reading them takes."""


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
