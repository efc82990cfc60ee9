"""Requests: what comes from outside becomes one, or an error that names what is wrong."""

import json
from typing import Any

import pytest

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.exports.filters import parse as where
from bulk_pipelines.exports.request import Compression, ExportRequest, Format, Order
from bulk_pipelines.resources.users import USERS


def test_the_least_there_is_to_say() -> None:
    request = ExportRequest.parse({"resource": "users"})
    assert request == ExportRequest("users")
    assert request.format is Format.CSV
    assert [column.name for column in request.columns] == list(USERS.column_names)


def test_all_there_is_to_say() -> None:
    request = ExportRequest.parse(
        {
            "resource": "users",
            "format": "csv",
            "fields": "name, id",
            "where": ["role=admin", "name=Hopper, Grace"],
            "order": "-created_at,name",
            "compression": "gzip",
            "escape_formulas": True,
        }
    )
    assert request == ExportRequest(
        resource="users",
        format=Format.CSV,
        fields=("name", "id"),
        filters=(where("role=admin"), where("name=Hopper, Grace")),
        order=(Order("created_at", descending=True), Order("name")),
        compression=Compression.GZIP,
        escape_formulas=True,
    )
    assert ExportRequest.parse(json.loads(json.dumps(request.as_params()))) == request


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "resource"),
        ({"resource": "nothing"}, "resource"),
        ({"resource": 7}, "resource"),
        ({"resource": "users", "format": "xls"}, "format"),
        ({"resource": "users", "format": None}, "format"),
        ({"resource": "users", "compression": "rar"}, "compression"),
        ({"resource": "users", "fields": ["id", "password"]}, "password"),
        ({"resource": "users", "fields": "id,id"}, "fields"),
        ({"resource": "users", "fields": 3}, "fields"),
        ({"resource": "users", "fields": [3]}, "fields"),
        ({"resource": "users", "order": "-nothing"}, "nothing"),
        ({"resource": "users", "order": "id,-id"}, "order"),
        ({"resource": "users", "where": ["role=admin", "secret=1"]}, "secret"),
        ({"resource": "users", "where": "role"}, "where"),
        ({"resource": "users", "where": ["role=admin", ""]}, "where"),
        ({"resource": "users", "limit": 3}, "limit"),
        ({"resource": "users", "escape_formulas": "yes"}, "escape_formulas"),
        ({"resource": "users", "escape_formulas": True, "format": "xlsx"}, "escape_formulas"),
        ({"resource": "users", "compression": "gzip", "format": "xlsx"}, "compression"),
    ],
)
def test_what_is_not_declared_is_refused_by_name(params: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ExportRequest.parse(params)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("format_", "compression", "suffix"),
    [
        (Format.CSV, Compression.NONE, ".csv"),
        (Format.NDJSON, Compression.GZIP, ".ndjson.gz"),
        (Format.JSON, Compression.ZSTD, ".json.zst"),
        (Format.PARQUET, Compression.ZSTD, ".parquet"),
        (Format.XLSX, Compression.NONE, ".xlsx"),
        (Format.ARROW, Compression.ZSTD, ".arrows"),
    ],
)
def test_the_name_says_what_is_in_the_file(format_: Format, compression: Compression, suffix: str) -> None:
    assert ExportRequest("users", format_, compression=compression).suffix == suffix
