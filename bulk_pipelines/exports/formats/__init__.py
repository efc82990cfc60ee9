"""The second stage of an export turns rows into the bytes of a CSV, NDJSON, JSON, Parquet, XLSX or Arrow file."""
