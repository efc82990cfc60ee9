"""How likely an entity is the one that a row names: by the features of the matcher, and by the row's other columns.

A row's candidates are compared among themselves, so its score does not depend on which other rows were worked with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bulk_pipelines.processing.matching import grams, index, scoring
from bulk_pipelines.processing.matching.entries import Entry, Query
from bulk_pipelines.processing.matching.folding import fold, host
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.results import Candidate
from bulk_pipelines.processing.wikidata.entities import Entity
from bulk_pipelines.processing.wikidata.options import ANSWERS, COUNTRY, INSTANCE_OF, WEBSITE

AGREES, DIFFERS = 2.0, -2.0
"""How much a property of the row counts for or against an entity, as logarithms of odds, like the model's weights."""
OTHER_TYPE = -4.0
REDIRECTED = -1.0
"""How much a redirect counts against an entity. A title that leads to an entity of other names is mostly another name
of it, but sometimes names a part of it."""
SURE = 0.99
"""The score of an entity that has the row's identifier."""
ADDRESS = "https://www.wikidata.org/wiki/"


@dataclass(frozen=True)
class Evidence:
    """What a row says of the thing that it names."""

    names: tuple[str, ...]
    context: str = ""
    countries: tuple[str, ...] = ()
    websites: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class World:
    """What is known of classes and countries, for all rows of a job."""

    classes: frozenset[str] | None = None
    """The classes that an entity may be an instance of; None: of any."""
    whole: bool = True
    """Whether these are all such classes, so that an instance of others is something else."""
    countries: Mapping[str, str] | None = None
    """The ISO codes of countries by their items."""


def judged(evidence: Evidence, entities: Sequence[Entity], titles: Mapping[str, str], world: World) -> list[Candidate]:
    """Return the entities as candidates, each with its score and what it was made of. `titles` has names that lead to
    some of them."""
    if not entities or not evidence.names:
        return []
    redirected = {each.id for each in entities if each.id in titles and not goes_by(each, titles[each.id])}
    entities = [replace(e, names=(*e.names, titles[e.id])) if e.id in redirected else e for e in entities]
    known = index.build([entry(each, world) for each in entities], weigh=grams.alike)
    query = Query(evidence.names, evidence.context, (), evidence.countries, evidence.websites)
    model = Model.standard()
    scored = scoring.score(known, [query], model)
    beyond = [
        marks(evidence, each, world) | ({"redirect": REDIRECTED} if each.id in redirected else {}) for each in entities
    ]
    shift = np.array([sum(each.values()) for each in beyond], np.float32)
    scored = replace(scored, strength=scored.strength + shift[scored.pairs.entry])
    (result,) = scoring.results(scored, model)
    return [
        candidate(
            entities[each.entry],
            each.score,
            {"asked": each.asked, "found": each.found, **each.features, **beyond[each.entry]},
        )
        for each in result.candidates
    ]


def goes_by(entity: Entity, name: str) -> bool:
    return fold(name) in map(fold, entity.names)


def candidate(entity: Entity, score: float, features: Mapping[str, Any]) -> Candidate:
    said = (entity.label, entity.description, list(entity.names[1:]), ADDRESS + entity.id)
    answer: dict[str, Any] = dict(zip(ANSWERS, said, strict=True))
    answer |= {pid: list(values) for pid, values in (entity.claims or {}).items()}
    return Candidate(entity.id, entity.label, score, answer, features)


def entry(entity: Entity, world: World) -> Entry:
    codes = [world.countries[each] for each in entity.values(COUNTRY) if each in (world.countries or {})]  # type: ignore[index]
    return Entry(entity.id, entity.names, entity.description, (), tuple(codes), entity.values(WEBSITE))


def marks(evidence: Evidence, entity: Entity, world: World) -> dict[str, float]:
    """Return what the entity's claims say for and against it, beyond the matcher's features."""
    found: dict[str, float] = {}
    types = entity.values(INSTANCE_OF)
    if world.classes is not None and types:
        if world.classes.intersection(types):
            found["type"] = AGREES / 2
        elif world.whole:
            found["type"] = OTHER_TYPE
    for pid, value in evidence.properties:
        if claimed := entity.values(pid):
            found[pid] = AGREES if any(same(value, each) for each in claimed) else DIFFERS
    return found


def same(given: str, claimed: str) -> bool:
    """Whether a value of a row and one of a claim are the same: dates as far as both are known, addresses by their
    hosts, texts but for case and marks."""
    if "://" in claimed:
        return host(given) == host(claimed)
    if is_date(given) and is_date(claimed):
        shorter = min(len(given), len(claimed))
        return given[:shorter] == claimed[:shorter]
    return fold(given) == fold(claimed)


def is_date(value: str) -> bool:
    parts = value.removeprefix("-").split("-")
    return [len(each) for each in parts] in ([4], [4, 2], [4, 2, 2]) and all(each.isdigit() for each in parts)
