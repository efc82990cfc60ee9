"""The second stage of an export: rows become the bytes of a CSV, NDJSON, JSON, Parquet or XLSX file."""
