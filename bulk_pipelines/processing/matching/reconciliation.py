"""The W3C Reconciliation API 0.2 over a reference: requests and answers as JSON values, without any HTTP.

OpenRefine and other clients ask in batches of queries. Their properties `country`, `website`, `description` and `type`
are evidence; others are not used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching import scoring
from bulk_pipelines.processing.matching.entries import Query
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.matching.results import Candidate

MOST_QUERIES, MOST_CANDIDATES, SUGGESTED = 1000, 50, 10
FIELDS = {"country": "countries", "website": "websites", "description": "description", "type": "types"}
PROPERTIES = {"country": "Country", "website": "Website", "description": "Description", "type": "Type"}
STRICT = ("any", "should", "all")

Json = dict[str, Any]


@dataclass(frozen=True)
class Service:
    """What a manifest says of a reference. `view` is an address with `{{id}}` in it."""

    name: str
    identifier_space: str
    schema_space: str
    view: str = ""


@dataclass(frozen=True)
class Asked:
    """One query of a batch."""

    query: Query
    limit: int
    types: frozenset[str]
    strict: str


def manifest(service: Service, address: str) -> Json:
    """Return what a client asks first. The suggest services stand under the service's own address."""
    suggest = {
        kind: {"service_url": address.rstrip("/"), "service_path": f"/suggest/{kind}"}
        for kind in ("entity", "type", "property")
    }
    described: Json = {
        "versions": ["0.2"],
        "name": service.name,
        "identifierSpace": service.identifier_space,
        "schemaSpace": service.schema_space,
        "suggest": suggest,
    }
    return described | ({"view": {"url": service.view}} if "{{id}}" in service.view else {})


def answer(index: Index, batch: object, model: Model | None = None) -> Json:
    """Return the result batch of a query batch. Raise `InvalidInput` if the batch is none."""
    model = model or Model.standard()
    if not isinstance(batch, Mapping):
        raise InvalidInput("queries", "a JSON object with queries is wanted")
    if len(batch) > MOST_QUERIES:
        raise InvalidInput("queries", f"at most {MOST_QUERIES} queries are answered at once")
    asked = {str(key): _asked(str(key), query) for key, query in batch.items()}
    scored = scoring.score(index, [each.query for each in asked.values()], model)
    scored = scored.where(_wanted(scored, list(asked.values())))
    results = scoring.results(scored, model, MOST_CANDIDATES)
    return {
        key: {"result": _candidates(index, result.candidates[: each.limit], result.best)}
        for (key, each), result in zip(asked.items(), results, strict=True)
    }


def suggest_entities(index: Index, prefix: str, cursor: int = 0) -> Json:
    """Return entries of which a name begins with the prefix or contains it, the shortest first, and the one with that
    id."""
    text = prefix.strip()
    if not text:
        return {"result": []}
    within = np.asarray(pc.match_substring(index.entries["name"], text, ignore_case=True))
    places = np.flatnonzero(within | np.asarray(pc.equal(index.entries["id"], pa.scalar(text, pa.large_string()))))
    found = index.entries.select(["id", "name", "description", "types"]).take(places).to_pylist()
    ranked = sorted(found, key=lambda each: (each["id"] != text, *_rank(each["name"], text), each["id"]))
    start = max(cursor, 0)
    return {"result": [_suggested(each) for each in ranked[start : start + SUGGESTED]]}


def suggest_types(index: Index, prefix: str) -> Json:
    """Return the types of entries that contain the prefix."""
    types = pc.unique(pc.list_flatten(index.entries["types"])).to_pylist()
    wanted = sorted(each for each in types if each and prefix.strip().casefold() in each.casefold())
    return {"result": [{"id": each, "name": each} for each in wanted[:SUGGESTED]]}


def suggest_properties(prefix: str) -> Json:
    """Return the properties that queries can be refined with."""
    wanted = prefix.strip().casefold()
    return {"result": [{"id": id_, "name": name} for id_, name in PROPERTIES.items() if wanted in name.casefold()]}


def _asked(key: str, query: object) -> Asked:
    field = f"queries.{key}"
    if not isinstance(query, Mapping):
        raise InvalidInput(field, "a query is a JSON object")
    text, properties = query.get("query", ""), query.get("properties", [])
    limit, strict = query.get("limit", SUGGESTED), query.get("type_strict", "any")
    if not isinstance(text, str) or not isinstance(properties, Sequence) or isinstance(properties, str):
        raise InvalidInput(field, "`query` is a text, and `properties` is a list")
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit >= 1:
        raise InvalidInput(field, "`limit` is a number from 1 on")
    if strict not in STRICT:
        raise InvalidInput(field, f"`type_strict` is one of {', '.join(STRICT)}")
    if not text.strip() and not properties:
        raise InvalidInput(field, "a query has a text or properties")
    said: dict[str, list[str]] = {name: [] for name in FIELDS.values()}
    types = _texts(query.get("type", []))
    for each in properties:
        if not isinstance(each, Mapping) or not isinstance(each.get("pid"), str) or "v" not in each:
            raise InvalidInput(field, "a property has a `pid` and a `v`")
        if each["pid"] in FIELDS:
            said[FIELDS[each["pid"]]] += _texts(each["v"])
    read = Query(
        (text,),
        " ".join(said["description"]),
        (*said["types"], *types),
        tuple(said["countries"]),
        tuple(said["websites"]),
    )
    return Asked(read, int(min(limit, MOST_CANDIDATES)), frozenset(types), strict)


def _texts(value: object) -> list[str]:
    """Return the texts of a property's value: one or several, and each a text, a number, a truth or another entity."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [str(each.get("name") or each.get("id", "")) if isinstance(each, Mapping) else str(each) for each in values]


def _wanted(scored: scoring.Scored, asked: Sequence[Asked]) -> npt.NDArray[np.bool_]:
    """Return which pairs have the types that their query insists on."""
    wanted = np.ones(len(scored.pairs), np.bool_)
    strict = np.array([bool(each.types) and each.strict != "should" for each in asked], np.bool_)
    places = np.flatnonzero(strict[scored.pairs.row])
    types = scored.index.entries["types"].take(scored.pairs.entry[places]).to_pylist()
    for place, known in zip(places.tolist(), types, strict=True):
        each = asked[scored.pairs.row[place]]
        common = each.types & set(known or ())
        wanted[place] = common == each.types if each.strict == "all" else bool(common)
    return wanted


def _candidates(index: Index, found: Sequence[Candidate], best: Candidate | None) -> list[Json]:
    return [
        {
            "id": each.id,
            "name": each.name,
            "description": index.entries["description"][each.entry].as_py(),
            "type": [{"id": type_, "name": type_} for type_ in index.entries["types"][each.entry].as_py()],
            "score": round(each.score * 100, 2),
            "match": each is best,
            "features": [{"id": name, "value": value} for name, value in each.features.items()],
        }
        for each in found
    ]


def _suggested(entry: Json) -> Json:
    notable = [{"id": each, "name": each} for each in entry["types"]]
    return {"id": entry["id"], "name": entry["name"], "description": entry["description"], "notable": notable}


def _rank(name: str, text: str) -> tuple[bool, int, str]:
    return not name.casefold().startswith(text.casefold()), len(name), name
