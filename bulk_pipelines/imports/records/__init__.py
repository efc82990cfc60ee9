"""The second stage of an import: the records of a range are read from the landed file as columns."""
