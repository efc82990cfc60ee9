"""Queries and their candidates. The properties `country`, `website`, `description` and `type` are evidence; others are
not used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.matching import scoring
from bulk_pipelines.processing.matching.entries import Query
from bulk_pipelines.processing.matching.features import FEATURES
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.matching.results import Candidate

MOST_QUERIES, MOST_CANDIDATES, LIMIT = 1000, 50, 10
FIELDS = {"country": "countries", "website": "websites", "description": "description", "type": "types"}
PROPERTIES = {"country": "Country", "website": "Website", "description": "Description", "type": "Type"}
COMPARED = {"country": "country", "website": "host"}
"""The features that tell whether a candidate has a required property."""

Json = dict[str, Any]
Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """One query of a batch."""

    query: Query
    limit: int = LIMIT
    types: frozenset[str] = frozenset()
    all_types: bool = False
    """Whether a candidate must have all of the types, and not only one."""
    required: frozenset[str] = frozenset()
    """Properties in which a candidate must agree with the query."""
    id: str = ""
    """The entry that is asked for by its id."""


@dataclass
class Said:
    """The values of a query's properties, collected by the fields of `Query`."""

    fields: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in FIELDS.values()})

    def add(self, name: str, value: object) -> None:
        if name in FIELDS:
            self.fields[FIELDS[name]] += texts(value)

    def query(self, names: Sequence[str], types: Sequence[str] = ()) -> Query:
        return Query(
            tuple(names),
            " ".join(self.fields["description"]),
            (*self.fields["types"], *types),
            tuple(self.fields["countries"]),
            tuple(self.fields["websites"]),
        )


def texts(value: object) -> list[str]:
    """Return the texts of a property's value: one or several, and each a text, a number, a truth or another entity."""
    values = value if isinstance(value, (list, tuple)) else [value]
    values = [each for each in values if each is not None]
    return [str(each.get("name") or each.get("id", "")) if isinstance(each, Mapping) else str(each) for each in values]


def limit_of(place: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 1:
        raise InvalidInput(place, "`limit` is a number from 1 on")
    return int(min(value, MOST_CANDIDATES))


def check_size(batch: Sequence[object] | Mapping[Any, object]) -> None:
    if len(batch) > MOST_QUERIES:
        raise InvalidInput("queries", f"at most {MOST_QUERIES} queries are answered at once")


def answer(index: Index, asked: Sequence[Asked], model: Model) -> list[list[Json]]:
    """Return the candidates of each query, the best first."""
    scored = scoring.score(index, [each.query for each in asked], model)
    scored = scored.where(of_wanted_types(scored, asked) & with_required(scored, asked))
    results = scoring.results(scored, model, MOST_CANDIDATES)
    return [
        by_id(index, each.id) if each.id else shown(index, result.candidates[: each.limit], result.best)
        for each, result in zip(asked, results, strict=True)
    ]


def of_wanted_types(scored: scoring.Scored, asked: Sequence[Asked]) -> Truths:
    """Return which pairs have the types that their query insists on."""
    wanted = np.ones(len(scored.pairs), np.bool_)
    places = np.flatnonzero(np.array([bool(each.types) for each in asked], np.bool_)[scored.pairs.row])
    known = scored.index.entries["types"].take(scored.pairs.entry[places]).to_pylist()
    for place, types in zip(places.tolist(), known, strict=True):
        each = asked[scored.pairs.row[place]]
        common = each.types & set(types or ())
        wanted[place] = common == each.types if each.all_types else bool(common)
    return wanted


def with_required(scored: scoring.Scored, asked: Sequence[Asked]) -> Truths:
    """Return which pairs have the properties that their query requires."""
    wanted = np.ones(len(scored.pairs), np.bool_)
    for name, feature in COMPARED.items():
        needs = np.array([name in each.required for each in asked], np.bool_)[scored.pairs.row]
        wanted &= ~needs | (scored.features[:, list(FEATURES).index(feature)] > 0)
    return wanted


def by_id(index: Index, entry_id: str) -> list[Json]:
    """Return the entry with this id. It is a certain match."""
    return [described(index, place) | {"score": 100.0, "match": True} for place in places_of(index, entry_id)[:1]]


def places_of(index: Index, entry_id: str) -> list[int]:
    found = pc.equal(index.entries["id"], pa.scalar(entry_id, pa.large_string()))
    places: list[int] = np.flatnonzero(np.asarray(found)).tolist()
    return places


def shown(index: Index, found: Sequence[Candidate], best: Candidate | None) -> list[Json]:
    return [
        described(index, each.entry)
        | {
            "score": round(each.score * 100, 2),
            "match": each is best,
            "features": [{"id": name, "name": name, "value": value} for name, value in each.features.items()],
        }
        for each in found
    ]


def described(index: Index, place: int) -> Json:
    """Return the fields that an entry has in all answers."""
    entry = index.entries.slice(place, 1).to_pylist()[0]
    return {
        "id": entry["id"],
        "name": entry["name"],
        "description": entry["description"],
        "type": [{"id": each, "name": each} for each in entry["types"]],
    }
