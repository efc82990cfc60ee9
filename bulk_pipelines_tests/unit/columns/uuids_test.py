"""UUIDs as text are what Python's own are."""

import uuid
from typing import Any

import pyarrow as pa
import pytest

from bulk_pipelines.columns.uuids import PIECE, is_identifier, to_text

SOME = [uuid.UUID(int=0), None, uuid.UUID(int=(1 << 128) - 1), uuid.UUID("0123abcd-89ef-4567-8901-23456789abcd"), None]


def column(ids: list[uuid.UUID | None]) -> Any:
    storage = pa.array([None if each is None else each.bytes for each in ids], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


@pytest.mark.parametrize(
    "ids", [[], SOME, [None, None], [uuid.uuid5(uuid.NAMESPACE_DNS, str(n)) for n in range(2 * PIECE + 3)]]
)
def test_the_text_of_ids(ids: list[uuid.UUID | None]) -> None:
    assert is_identifier(column(ids).type)
    expected = [None if each is None else str(each) for each in ids]
    found = to_text(column(ids))
    found.validate(full=True)
    assert found.to_pylist() == expected
    assert to_text(column(ids).storage).to_pylist() == expected, "as some versions of the driver give them"


def test_a_part_of_a_column() -> None:
    found = to_text(column(SOME * 5)[3:14])
    found.validate(full=True)
    assert found.to_pylist() == [None if each is None else str(each) for each in (SOME * 5)[3:14]]
