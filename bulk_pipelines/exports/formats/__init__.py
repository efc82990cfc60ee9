"""The second stage of an export turns rows into the bytes of a file: `text` makes CSV, NDJSON and JSON, `tables` makes
Parquet, XLSX and Arrow, and `compression` compresses the bytes."""
