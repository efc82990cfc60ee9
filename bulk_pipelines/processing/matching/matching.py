"""The matcher's functions: `match` matches a batch, `match_one_to_one` does so without taking an entry twice, and
`doubles` finds entries that a reference has twice."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bulk_pipelines.processing.matching import one_to_one, scoring
from bulk_pipelines.processing.matching.entries import Entry, Query
from bulk_pipelines.processing.matching.index import Index
from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.matching.results import Candidate, Result

BATCH = 2_500
"""Queries that are compared at once: more of them want more memory, and are not faster."""


@dataclass(frozen=True, slots=True)
class Double:
    """An entry that seems to stand in its reference a second time, as the candidate."""

    id: str
    candidate: Candidate


def match(index: Index, queries: Sequence[Query], model: Model | None = None) -> list[Result]:
    """Return the verdict on each query. It does not depend on the other queries of the batch."""
    model = model or Model.standard()
    return [result for scored in _batches(index, queries, model) for result in scoring.results(scored, model)]


def match_one_to_one(index: Index, queries: Sequence[Query], model: Model | None = None) -> list[Result]:
    """Return the verdict on each query, and match no entry with two of them: the surer query gets it."""
    model = model or Model.standard()
    batches = list(_batches(index, queries, model))
    return [result for scored in one_to_one.assigned(batches, model) for result in scoring.results(scored, model)]


def doubles(index: Index, entries: Iterable[Entry], model: Model | None = None) -> Iterator[Double]:
    """Yield pairs of entries that are likely the same thing, each pair once. The entries are those of the index, in the
    same order."""
    model = model or Model.standard()
    stream, before = iter(entries), 0
    while chunk := list(islice(stream, BATCH)):
        scored = scoring.score(index, [_asking(entry) for entry in chunk], model)
        probability = scoring.apart(scored.strength)
        likely = (probability >= model.threshold) & (scored.pairs.entry > scored.pairs.row + before)
        chosen = np.flatnonzero(likely)
        found = scoring.evidence(scored, chosen, probability)
        yield from map(Double, (chunk[row].id for row in scored.pairs.row[chosen].tolist()), found)
        before += len(chunk)


def _batches(index: Index, queries: Sequence[Query], model: Model) -> Iterator[scoring.Scored]:
    for start in range(0, len(queries), BATCH):
        yield scoring.score(index, queries[start : start + BATCH], model)


def _asking(entry: Entry) -> Query:
    return Query(entry.names, entry.description, entry.types, entry.countries, entry.websites)
