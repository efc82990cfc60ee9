"""The kinds of column a resource can have: how each is stored, held in memory, written in files."""

from enum import Enum

import pyarrow as pa


class Kind(Enum):
    """What a column holds. The text form is the same in every file format, in and out."""

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
        """The reason given for a value that is not of this kind, unless the column has its own."""
        return _CODE[self]

    @property
    def text_form(self) -> str:
        return _TEXT_FORM[self]


_POSTGRES = {
    Kind.UUID: "uuid",
    Kind.TEXT: "text",
    Kind.BOOLEAN: "boolean",
    Kind.TIMESTAMP: "timestamptz",
    Kind.TEXT_LIST: "text[]",
}

_ARROW: dict[Kind, pa.DataType] = {
    Kind.UUID: pa.string(),
    Kind.TEXT: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TEXT_LIST: pa.list_(pa.string()),
}

_CODE = {
    Kind.UUID: "invalid_uuid",
    Kind.TEXT: "invalid_text",
    Kind.BOOLEAN: "invalid_boolean",
    Kind.TIMESTAMP: "invalid_timestamp",
    Kind.TEXT_LIST: "invalid_list",
}

_TEXT_FORM = {
    Kind.UUID: "8-4-4-4-12 hexadecimal digits in any case, stored in lower case",
    Kind.TEXT: 'as it is; in CSV an empty field is no value, a quoted empty field (`""`) is empty text '
    "(of every other kind it is no value either)",
    Kind.BOOLEAN: "JSON: `true`, `false`; CSV: `true`, `false`, `t`, `f`, `1`, `0` in any case",
    Kind.TIMESTAMP: "ISO 8601, `2026-01-10T12:30:00.123456Z`: date alone, a space for the T, another offset, "
    "fewer digits are accepted; without an offset it is UTC",
    Kind.TEXT_LIST: 'a JSON array of strings; in CSV the same array as the field\'s text: `["one","two"]`',
}
