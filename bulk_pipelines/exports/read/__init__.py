"""The first stage of an export: its rows, read from one snapshot over one or several connections."""
