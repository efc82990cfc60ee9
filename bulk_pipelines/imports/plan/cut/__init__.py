"""Cutting a landed file into `ranges` that end with a record, so that many workers can read it at once."""
