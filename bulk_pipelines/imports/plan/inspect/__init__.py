"""Examining a landed file: how it is written, and which of its fields go to which columns."""
