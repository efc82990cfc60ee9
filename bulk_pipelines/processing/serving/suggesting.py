"""Entries, types and properties are suggested while people type."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.serving.asking import PROPERTIES, Json

SUGGESTED = 10
MOST_RANKED = 5_000
"""How many entries whose names begin with a text are ranked, and how many that have it anywhere: one letter stands in
most names."""


def suggest(index: Index, kind: str, prefix: str, cursor: int, columns: Mapping[str, str]) -> Json:
    """Return what a text may be the beginning of. `columns` are the properties of this reference, besides those that
    are evidence."""
    text = prefix.strip()
    if not text:
        return {"result": []}
    match kind:
        case "entity":
            return {"result": entities(index, text, cursor)}
        case "type":
            return {"result": types(index, text)[max(cursor, 0) :][:SUGGESTED]}
        case "property":
            return {"result": properties(columns, text)[max(cursor, 0) :][:SUGGESTED]}
    raise InvalidInput("kind", f"{kind!r} is none of entity, type, property")


def entities(index: Index, text: str, cursor: int) -> list[Json]:
    """Return entries of which a name begins with the text or contains it, the shortest first, and the one with that
    id."""
    names, ids = index.entries["name"], index.entries["id"]
    begins = pc.starts_with(names, text, ignore_case=True)
    within = pc.match_substring(names, text, ignore_case=True)
    is_it = pc.equal(ids, pa.scalar(text, pa.large_string()))
    likely = [np.flatnonzero(np.asarray(each))[:MOST_RANKED] for each in (is_it, begins, within)]
    places = np.unique(np.concatenate(likely))
    found = index.entries.select(["id", "name", "description", "types"]).take(places).to_pylist()
    ranked = sorted(found, key=lambda each: (each["id"] != text, *rank(each["name"], text), each["id"]))
    start = max(cursor, 0)
    return [suggested(each) for each in ranked[start : start + SUGGESTED]]


def suggested(entry: Json) -> Json:
    notable = [{"id": each, "name": each} for each in entry["types"]]
    return {"id": entry["id"], "name": entry["name"], "description": entry["description"], "notable": notable}


def rank(name: str, text: str) -> tuple[bool, int, str]:
    return not name.casefold().startswith(text.casefold()), len(name), name


def types(index: Index, text: str) -> list[Json]:
    known = pc.unique(pc.list_flatten(index.entries["types"])).to_pylist()
    wanted = sorted(each for each in known if each and text.casefold() in each.casefold())
    return [{"id": each, "name": each} for each in wanted]


def properties(columns: Mapping[str, str], text: str) -> list[Json]:
    known = PROPERTIES | dict(columns)
    return [{"id": id_, "name": name} for id_, name in known.items() if text.casefold() in name.casefold()]
