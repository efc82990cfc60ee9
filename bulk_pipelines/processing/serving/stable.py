"""Version 0.2 of the Reconciliation API, which OpenRefine speaks."""

from collections.abc import Mapping, Sequence

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.serving import asking, extending
from bulk_pipelines.processing.serving.asking import Asked, Json, Said, texts
from bulk_pipelines.processing.serving.offered import Service

VERSION = "0.2"
STRICT = ("any", "should", "all")
PREVIEW = {"width": 420, "height": 240}


def manifest(name: str, at: str) -> Json:
    """Return what a client asks first of the service of this name and address."""
    return {
        "versions": [VERSION],
        "name": name,
        "identifierSpace": f"{at}/entities/",
        "schemaSpace": f"{at}/properties/",
        "defaultTypes": [],
        "view": {"url": f"{at}/preview?id={{{{id}}}}"},
        "preview": {"url": f"{at}/preview?id={{{{id}}}}", **PREVIEW},
        "suggest": {
            kind: {"service_url": at, "service_path": f"/suggest/{kind}"} for kind in ("entity", "type", "property")
        },
        "extend": {
            "propose_properties": {"service_url": at, "service_path": "/properties"},
            "property_settings": [],
        },
        "batchSize": asking.MOST_QUERIES,
    }


def answer(index: Index, batch: object, model: Model | None = None) -> Json:
    """Return the result batch of a query batch. Raise `InvalidInput` if the batch is none."""
    if not isinstance(batch, Mapping):
        raise InvalidInput("queries", "a JSON object with queries is wanted")
    asking.check_size(batch)
    asked = {str(key): read(str(key), query) for key, query in batch.items()}
    found = asking.answer(index, list(asked.values()), model or Model.standard())
    return {key: {"result": each} for key, each in zip(asked, found, strict=True)}


def read(key: str, query: object) -> Asked:
    place = f"queries.{key}"
    if not isinstance(query, Mapping):
        raise InvalidInput(place, "a query is a JSON object")
    text, properties, strict = query.get("query", ""), query.get("properties", []), query.get("type_strict", "any")
    if not isinstance(text, str) or not isinstance(properties, Sequence) or isinstance(properties, str):
        raise InvalidInput(place, "`query` is a text, and `properties` is a list")
    if strict not in STRICT:
        raise InvalidInput(place, f"`type_strict` is one of {', '.join(STRICT)}")
    if "query" not in query and not properties:
        raise InvalidInput(place, "a query has a text or properties")
    limit = asking.limit_of(place, query.get("limit", asking.LIMIT))
    said, types = Said(), texts(query.get("type", []))
    for each in properties:
        if not isinstance(each, Mapping) or not isinstance(each.get("pid"), str) or "v" not in each:
            raise InvalidInput(place, "a property has a `pid` and a `v`")
        said.add(each["pid"], each["v"])
    insisted = frozenset(types) if strict != "should" else frozenset()
    return Asked(said.query((text,), types), limit, insisted, strict == "all")


def extended(service: Service, query: object) -> Json:
    meta, values = extending.extended(service, query)
    return {"meta": meta, "rows": values}
