"""What an import of goods must come to, worked out value by value in plain Python."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bulk_pipelines_tests.scenes.any_files import COLUMNS, Bad, Good, Way, json_value, lines_of


def expected(goods: Sequence[Good], way: Way) -> tuple[dict[int, tuple[Any, ...]], dict[int, str], int]:
    """Return the rows of the table by their ids, the code of each reject by its line, and how many records are rejected
    for their values alone: what a preview sees."""
    rows: dict[int, tuple[Any, ...]] = {7: (7, "held", None, None, None, None, None, 5, None, None, None, None)}
    rejects: dict[int, str] = {}
    seen, by_value = {7}, 0
    for line, good in zip(lines_of(goods, way), goods, strict=True):
        given = {column for column, _ in way.fields} | ({"name"} if way.expression else set())
        bad = [value for column, value in good.items() if column in given and is_bad(value, way)]
        early = [each for each in bad if not each.late]
        if early:
            rejects[line] = early[0].code
            by_value += 1
        elif good["Id"] in seen:
            rejects[line] = "duplicate_key"
        elif bad:
            rejects[line] = bad[0].code
            seen.add(good["Id"])
        else:
            seen.add(good["Id"])
            rows[good["Id"]] = tuple(stored(column, good[column], way, given) for column in COLUMNS)
    return rows, rejects, by_value


def is_bad(value: Any, way: Way) -> bool:
    """Whether a file of this format has a bad value here. In JSON, every string is JSON."""
    return isinstance(value, Bad) and not (value.code == "invalid_json" and way.format in {"ndjson", "json"})


def stored(column: str, value: Any, way: Way, given: set[str]) -> Any:
    if column == "note" and way.constant:
        return "a constant"
    if column not in given:
        return 5 if column == "stock" else None
    if value == "" and way.format == "xlsx":
        return None
    if column == "extra" and way.format in {"ndjson", "json"}:
        # An object in quotes is a string.
        return json.loads(json_value(column, value.given if isinstance(value, Bad) else value, replace(way, nulls="")))
    return value
