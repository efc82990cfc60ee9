"""The draft of version 1.0 of the Reconciliation API."""

from collections.abc import Mapping

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.serving import asking, extending
from bulk_pipelines.processing.serving.asking import COMPARED, PROPERTIES, Asked, Json, Said, texts
from bulk_pipelines.processing.serving.offered import Service
from bulk_pipelines.processing.serving.stable import PREVIEW

VERSION = "1.0-draft"
MATCHED_BY = ("name", "id", "property")
QUANTIFIERS = ("any", "all")
"""The quantifiers that are answered. `none` is not: no evidence speaks for a candidate because it lacks a value."""


def manifest(name: str, at: str) -> Json:
    """Return what a client asks first of the service of this name and address."""
    return {
        "versions": [VERSION],
        "name": name,
        "view": {"url": f"{at}/preview?id={{id}}"},
        "preview": dict(PREVIEW),
        "suggest": {"entity": True, "type": True, "property": True},
        "extend": {"proposeProperties": True, "propertySettings": []},
        "batchSize": asking.MOST_QUERIES,
        "standardizedScore": True,
    }


def answer(index: Index, batch: object, model: Model) -> Json:
    """Return the result batch of a query batch. Raise `InvalidInput` if the batch is none."""
    queries = batch.get("queries") if isinstance(batch, Mapping) else None
    if not isinstance(queries, list):
        raise InvalidInput("queries", "a JSON object with a list of queries is wanted")
    asking.check_size(queries)
    asked = [read(number, query) for number, query in enumerate(queries)]
    return {"results": [{"candidates": each} for each in asking.answer(index, asked, model)]}


def read(number: int, query: object) -> Asked:
    place = f"queries[{number}]"
    if not isinstance(query, Mapping):
        raise InvalidInput(place, "a query is a JSON object")
    conditions, entity_type = query.get("conditions"), query.get("type")
    if not isinstance(conditions, list) or not conditions:
        raise InvalidInput(place, "`conditions` is a list with one condition or more")
    if entity_type is not None and not isinstance(entity_type, str):
        raise InvalidInput(place, "`type` is the id of one type")
    types = [entity_type] if entity_type else []
    names: list[str] = []
    ids: list[str] = []
    required: set[str] = set()
    wanted = set(types)
    said = Said()
    for each in conditions:
        kind, name, values = condition(place, each)
        if kind == "name":
            names += values
        elif kind == "id":
            ids += values
        else:
            said.add(name, values)
            if each.get("required") is True:
                wanted |= set(values) if name == "type" else set()
                required |= {checked_required(place, name)} if name != "type" else set()
    return Asked(
        said.query(names, types),
        asking.limit_of(place, query.get("limit", asking.LIMIT)),
        frozenset(wanted),
        required=frozenset(required),
        id=ids[0] if ids else "",
    )


def condition(place: str, given: object) -> tuple[str, str, list[str]]:
    if not isinstance(given, Mapping) or given.get("matchType") not in MATCHED_BY or "propertyValue" not in given:
        raise InvalidInput(place, f"a condition has a `matchType` ({', '.join(MATCHED_BY)}) and a `propertyValue`")
    name = given.get("propertyId", "")
    if given["matchType"] == "property" and (not isinstance(name, str) or not name):
        raise InvalidInput(place, "a condition on a property has a `propertyId`")
    if given.get("matchQuantifier", "any") not in QUANTIFIERS:
        raise InvalidInput(place, f"`matchQuantifier` can be {' or '.join(QUANTIFIERS)} here")
    return given["matchType"], name, texts(given["propertyValue"])


def checked_required(place: str, name: str) -> str:
    """Return the name of a property that can be required. Others are refused, because candidates are not compared by
    them: the answer would be wrong, and nobody would know."""
    if name not in COMPARED:
        known = ", ".join(each for each in PROPERTIES if each in COMPARED or each == "type")
        raise InvalidInput(place, f"{name!r} cannot be required; {known} can")
    return name


def extended(service: Service, query: object) -> Json:
    meta, known = extending.extended(service, query)
    rows = [
        {"id": entry, "properties": [{"id": name, "values": each} for name, each in values.items()]}
        for entry, values in known.items()
    ]
    return {"meta": meta, "rows": rows}
