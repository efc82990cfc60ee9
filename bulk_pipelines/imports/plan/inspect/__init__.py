"""Examining a landed file: how it is written, and which of its fields go to which columns. `layout` recognises its
format, for CSV by the `dialect` and the `header`, and for JSON by the first `json_fields`; `naming` finds the column of
each field."""
