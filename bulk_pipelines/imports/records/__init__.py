"""The second stage of an import: a range of a landed file is read as columns of records."""
