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
    SMALLINT = "smallint"
    INTEGER = "integer"
    BIGINT = "bigint"
    NUMERIC = "numeric"
    REAL = "real"
    DOUBLE = "double"
    DATE = "date"
    TIME = "time"
    LOCAL_TIMESTAMP = "local timestamp"
    INTERVAL = "interval"
    JSON = "json"
    BYTES = "bytes"
    NETWORK = "network address"
    ARRAY = "array"
    OTHER = "other"

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

    @property
    def is_number(self) -> bool:
        return self in _NUMBERS


_POSTGRES = {
    ColumnKind.UUID: "uuid",
    ColumnKind.TEXT: "text",
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.TIMESTAMP: "timestamptz",
    ColumnKind.TEXT_LIST: "text[]",
    ColumnKind.SMALLINT: "smallint",
    ColumnKind.INTEGER: "integer",
    ColumnKind.BIGINT: "bigint",
    ColumnKind.NUMERIC: "numeric",
    ColumnKind.REAL: "real",
    ColumnKind.DOUBLE: "double precision",
    ColumnKind.DATE: "date",
    ColumnKind.TIME: "time without time zone",
    ColumnKind.LOCAL_TIMESTAMP: "timestamp without time zone",
    ColumnKind.INTERVAL: "interval",
    ColumnKind.JSON: "jsonb",
    ColumnKind.BYTES: "bytea",
    ColumnKind.NETWORK: "inet",
    ColumnKind.ARRAY: "text[]",
    ColumnKind.OTHER: "text",
}

_NUMBERS = {
    ColumnKind.SMALLINT,
    ColumnKind.INTEGER,
    ColumnKind.BIGINT,
    ColumnKind.NUMERIC,
    ColumnKind.REAL,
    ColumnKind.DOUBLE,
}

# A kind that is not named here is held as PostgreSQL writes it, as text.
_ARROW: dict[ColumnKind, pa.DataType] = dict.fromkeys(ColumnKind, pa.string()) | {
    ColumnKind.BOOLEAN: pa.bool_(),
    ColumnKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnKind.TEXT_LIST: pa.list_(pa.string()),
    ColumnKind.SMALLINT: pa.int16(),
    ColumnKind.INTEGER: pa.int32(),
    ColumnKind.BIGINT: pa.int64(),
    ColumnKind.REAL: pa.float32(),
    ColumnKind.DOUBLE: pa.float64(),
    ColumnKind.DATE: pa.date32(),
    ColumnKind.LOCAL_TIMESTAMP: pa.timestamp("us"),
}

_CODE = {
    ColumnKind.UUID: "invalid_uuid",
    ColumnKind.TEXT: "invalid_text",
    ColumnKind.BOOLEAN: "invalid_boolean",
    ColumnKind.TIMESTAMP: "invalid_timestamp",
    ColumnKind.TEXT_LIST: "invalid_list",
    ColumnKind.SMALLINT: "invalid_number",
    ColumnKind.INTEGER: "invalid_number",
    ColumnKind.BIGINT: "invalid_number",
    ColumnKind.NUMERIC: "invalid_number",
    ColumnKind.REAL: "invalid_number",
    ColumnKind.DOUBLE: "invalid_number",
    ColumnKind.DATE: "invalid_date",
    ColumnKind.TIME: "invalid_time",
    ColumnKind.LOCAL_TIMESTAMP: "invalid_timestamp",
    ColumnKind.INTERVAL: "invalid_interval",
    ColumnKind.JSON: "invalid_json",
    ColumnKind.BYTES: "invalid_bytes",
    ColumnKind.NETWORK: "invalid_address",
    ColumnKind.ARRAY: "invalid_array",
    ColumnKind.OTHER: "invalid_value",
}

_TEXT_FORM = {
    ColumnKind.UUID: "8-4-4-4-12 hexadecimal digits in any case, stored in lower case",
    ColumnKind.TEXT: 'as it is; in CSV an empty field is no value, a quoted empty field (`""`) is empty text '
    "(of every other kind it is no value either, unless the type has an empty value, as tsvector has)",
    ColumnKind.BOOLEAN: "JSON: `true`, `false`; CSV: `true`, `false`, `t`, `f`, `1`, `0` in any case",
    ColumnKind.TIMESTAMP: "ISO 8601, `2026-01-10T12:30:00.123456Z`: date alone, a space for the T, another offset, "
    "fewer digits are accepted; without an offset it is UTC",
    ColumnKind.TEXT_LIST: 'a JSON array of strings; in CSV the same array as the field\'s text: `["one","two"]`',
    ColumnKind.SMALLINT: "a whole number from -32768 to 32767",
    ColumnKind.INTEGER: "a whole number of 32 bits",
    ColumnKind.BIGINT: "a whole number of 64 bits",
    ColumnKind.NUMERIC: "a number with a point, of any size; never rounded to the digits of its column",
    ColumnKind.REAL: "a number, `1.5e3`, `NaN`, `Infinity`; the nearest number of 32 bits is stored",
    ColumnKind.DOUBLE: "as real, with 64 bits",
    ColumnKind.DATE: "`2026-01-10`; `infinity`",
    ColumnKind.TIME: "`12:30:00.123456`; with an offset where the column has a time zone",
    ColumnKind.LOCAL_TIMESTAMP: "a timestamp without an offset",
    ColumnKind.INTERVAL: "as PostgreSQL writes and reads it: `1 day 02:03:04`, `P1DT2H`",
    ColumnKind.JSON: "JSON",
    ColumnKind.BYTES: "`\\x` and hexadecimal digits",
    ColumnKind.NETWORK: "`192.168.0.1`, `10.0.0.0/8`, `2001:db8::1`",
    ColumnKind.ARRAY: 'as PostgreSQL writes it: `{1,2,NULL}`, `{"a b",c}`',
    ColumnKind.OTHER: "as PostgreSQL writes and reads it",
}
