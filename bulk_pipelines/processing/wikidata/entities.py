"""Entities as Wikidata's interfaces answer them, and as they are kept: names, description, and values of claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from bulk_pipelines.errors import Transient
from bulk_pipelines.processing.wikidata.options import ITEM

MOST_NAMES, MOST_VALUES, LONGEST = 50, 20, 300
PREFIX = "http://www.wikidata.org/entity/"


@dataclass(frozen=True)
class Entity:
    """One thing that Wikidata knows."""

    id: str
    names: tuple[str, ...]
    """The label first."""
    description: str = ""
    claims: Mapping[str, tuple[str, ...]] | None = field(default=None, hash=False)
    """The values of its best claims; None when nobody asked for them."""

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"id": self.id, "names": list(self.names), "description": self.description}
        return shown | (
            {} if self.claims is None else {"claims": {pid: list(each) for pid, each in self.claims.items()}}
        )

    @classmethod
    def of_kept(cls, value: Mapping[str, Any]) -> Self:
        claims = value.get("claims")
        kept = None if claims is None else {pid: tuple(each) for pid, each in claims.items()}
        return cls(value["id"], tuple(value["names"]), value["description"], kept)

    @property
    def label(self) -> str:
        return self.names[0] if self.names else self.id

    def values(self, pid: str) -> tuple[str, ...]:
        return (self.claims or {}).get(pid, ())


def lying(said: str) -> Transient:
    return Transient(f"Wikidata's answer is not what its interface promises: {said}")


def table(value: Any, said: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise lying(f"{said} is no object")
    return value


def listed(value: Any, said: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise lying(f"{said} is no list")
    return value


def text(value: Any, said: str) -> str:
    if not isinstance(value, str):
        raise lying(f"{said} is no text")
    return value[:LONGEST]


def of_terms(page: Any) -> Entity | None:
    """Return the entity of a page with its terms; None when the page is none of an item."""
    found = table(page, "a page")
    title = text(found.get("title"), "the title of a page")
    if not ITEM.fullmatch(title):
        return None
    terms = table(found.get("entityterms") or {}, "the terms of a page")
    named = [text(each, "a term") for key in ("label", "alias") for each in listed(terms.get(key) or [], "terms")]
    about = listed(terms.get("description") or [""], "terms")
    return Entity(title, unique(named), text(about[0], "a description") if about else "")


def of_answer(entity: Any, languages: Sequence[str], wanted: Sequence[str]) -> Entity | None:
    """Return an entity of `wbgetentities` with the claims that are wanted; None when there is no such entity."""
    found = table(entity, "an entity")
    if "missing" in found:
        return None
    labels, aliases, descriptions, claims = (
        table(found.get(key) or {}, f"{key} of an entity") for key in ("labels", "aliases", "descriptions", "claims")
    )
    spoken = [each for each in languages if each in labels] or list(labels)[:1]
    names = [worded(labels[each]) for each in spoken]
    names += [worded(each) for code in languages for each in listed(aliases.get(code) or [], "aliases")]
    described = next((worded(descriptions[each]) for each in languages if each in descriptions), "")
    values = {pid: best_values(listed(claims[pid], "claims")) for pid in wanted if pid in claims}
    return Entity(text(found.get("id"), "the id of an entity"), unique(names), described, values)


def worded(value: Any) -> str:
    return text(table(value, "a term").get("value"), "a term")


def unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in names if each))[:MOST_NAMES]


def best_values(claims: Sequence[Any]) -> tuple[str, ...]:
    """Return the values of the preferred claims, or else of all that are not deprecated."""
    checked = [table(each, "a claim") for each in claims]
    ranked = [each for each in checked if each.get("rank") == "preferred"]
    chosen = ranked or [each for each in checked if each.get("rank") != "deprecated"]
    found = (valued(table(each.get("mainsnak"), "a snak")) for each in chosen)
    return tuple(dict.fromkeys(each for each in found if each))[:MOST_VALUES]


def valued(snak: Mapping[str, Any]) -> str:
    """Return a claim's value as text; empty for what has none, such as "unknown", and for places on the globe."""
    value = snak.get("datavalue")
    if value is None:
        return ""
    inner = table(value, "a value").get("value")
    if isinstance(inner, str):
        return inner[:LONGEST]
    held = table(inner, "a value")
    for key in ("id", "text", "amount"):
        if isinstance(held.get(key), str):
            return str(held[key])[:LONGEST]
    return date(held) if "time" in held else ""


def date(value: Mapping[str, Any]) -> str:
    """Return `+1815-12-10T00:00:00Z` as far as it is known: to the day, the month or the year."""
    said, precision = text(value.get("time"), "a time"), value.get("precision")
    length = {11: 10, 10: 7, 9: 4}.get(precision) if isinstance(precision, int) else None
    sign = "-" if said.startswith("-") else ""
    return "" if length is None else sign + said.lstrip("+-")[:length]
