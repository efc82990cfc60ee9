"""More about entries: the values that they have in the columns of their reference."""

from collections.abc import Mapping
from typing import Any

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing import results
from bulk_pipelines.processing.serving.asking import Json
from bulk_pipelines.processing.serving.offered import Service

MOST_ENTRIES = 10_000

Values = Mapping[str, Mapping[str, list[Json]]]
"""The values of each entry, by the properties that were asked for."""


def extended(service: Service, query: object) -> tuple[list[Json], Values]:
    """Return what is known of the properties that were asked for, and their values, in the order of the ids."""
    if not isinstance(query, Mapping):
        raise InvalidInput("extend", "a JSON object with ids and properties is wanted")
    ids, properties = checked_ids(query.get("ids")), checked_properties(service, query.get("properties"))
    found = service.values(ids, properties) if ids and properties else {}
    known = {each: {name: values_of(found.get(each, {}).get(name)) for name in properties} for each in ids}
    return [{"id": name, "name": service.columns[name]} for name in properties], known


def checked_ids(given: object) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) and "\0" not in each for each in given):
        raise InvalidInput("extend.ids", "must be a list of texts")
    if len(given) > MOST_ENTRIES:
        raise InvalidInput("extend.ids", f"at most {MOST_ENTRIES:,} entries are shown at once")
    return list(dict.fromkeys(given))


def checked_properties(service: Service, given: object) -> list[str]:
    if not isinstance(given, list):
        raise InvalidInput("extend.properties", "must be a list")
    names = [each.get("id") if isinstance(each, Mapping) else None for each in given]
    for name in names:
        if name not in service.columns:
            raise InvalidInput("extend.properties", f"there is no {name!r}; there are {', '.join(service.columns)}")
    return [name for name in dict.fromkeys(names) if name is not None]


def values_of(value: Any) -> list[Json]:
    if value is None or value == "":
        return []
    if isinstance(value, list):
        return [each for one in value for each in values_of(one)]
    if isinstance(value, int) and not isinstance(value, bool):
        return [{"int": value}]
    if isinstance(value, float):
        return [{"float": value}]
    return [{"str": results.shown(value) or ""}]


def proposed(service: Service, entity_type: str | None, limit: int | None) -> Json:
    """Return the properties that can be asked for. They are the same for entries of all types."""
    every = [{"id": id_, "name": name} for id_, name in service.columns.items()]
    told: Json = {"properties": every if limit is None else every[: max(limit, 0)]}
    told |= {"type": entity_type} if entity_type else {}
    return told | ({"limit": limit} if limit is not None else {})
