"""The column kinds of a resource: how the values of each are stored, held in memory, and written in files."""

from enum import Enum

import pyarrow as pa


class ColumnKind(Enum):
    """What the values of a column are. Their text form is the same in imported and in exported files."""

    UUID = "uuid"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    TEXT_LIST = "text list"

    @property
    def postgres(self) -> str:
        return _POSTGRES[self]

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self]

    @property
    def code(self) -> str:
        """The code of the reason for rejecting a value that is not of this kind, unless the column has its own code."""
        return _CODE[self]

    @property
    def text_form(self) -> str:
        return _TEXT_FORM[self]


_POSTGRES = {
    ColumnKind.UUID: "uuid",
    ColumnKind.TEXT: "text",
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.TIMESTAMP: "timestamptz",
    ColumnKind.TEXT_LIST: "text[]",
}

_ARROW: dict[ColumnKind, pa.DataType] = {
    ColumnKind.UUID: pa.string(),
    ColumnKind.TEXT: pa.string(),
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnKind.TEXT_LIST: pa.list_(pa.string()),
}

_CODE = {
    ColumnKind.UUID: "invalid_uuid",
    ColumnKind.TEXT: "invalid_text",
    ColumnKind.BOOLEAN: "invalid_boolean",
    ColumnKind.TIMESTAMP: "invalid_timestamp",
    ColumnKind.TEXT_LIST: "invalid_list",
}

_TEXT_FORM = {
    ColumnKind.UUID: "8-4-4-4-12 hexadecimal digits in any case, stored in lower case",
    ColumnKind.TEXT: 'as it is; in CSV an empty field is no value, a quoted empty field (`""`) is empty text '
    "(of every other kind it is no value either)",
    ColumnKind.BOOLEAN: "JSON: `true`, `false`; CSV: `true`, `false`, `t`, `f`, `1`, `0` in any case",
    ColumnKind.TIMESTAMP: "ISO 8601, `2026-01-10T12:30:00.123456Z`: date alone, a space for the T, another offset, "
    "fewer digits are accepted; without an offset it is UTC",
    ColumnKind.TEXT_LIST: 'a JSON array of strings; in CSV the same array as the field\'s text: `["one","two"]`',
}
