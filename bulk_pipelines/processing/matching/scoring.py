"""Batches of queries with their candidates, compared and weighed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bulk_pipelines.processing.matching import candidates
from bulk_pipelines.processing.matching.candidates import Names, Pairs
from bulk_pipelines.processing.matching.comparing import Compared
from bulk_pipelines.processing.matching.entries import Query
from bulk_pipelines.processing.matching.features import features
from bulk_pipelines.processing.matching.grams import Floats, Ints
from bulk_pipelines.processing.matching.index import Index, taken
from bulk_pipelines.processing.matching.model import Model, probabilities
from bulk_pipelines.processing.matching.results import Candidate, Result, Verdict
from bulk_pipelines.processing.matching.variants import Origin

MOST, LEAST_SCORE = 5, 0.01
"""How many candidates a result shows unless more are asked for, and the score below which none is shown."""


@dataclass(frozen=True)
class Scored:
    """The pairs of a batch with their features and strengths."""

    index: Index
    size: int
    names: Names
    pairs: Pairs
    features: Floats
    strength: Floats

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Scored":
        pairs, compared, strength = self.pairs.where(chosen), self.features[chosen], self.strength[chosen]
        return replace(self, pairs=pairs, features=compared, strength=strength)


def score(index: Index, queries: Sequence[Query], model: Model) -> Scored:
    """Compare each query with its candidates."""
    names = candidates.names_of(queries)
    pairs = candidates.find(index, queries, names)
    compared = features(Compared(index, queries, names, pairs))
    return Scored(index, len(queries), names, pairs, compared, model.strength(compared))


def results(scored: Scored, model: Model, most: int = MOST) -> list[Result]:
    """Return the verdict on each query of the batch."""
    return [_judged(found, model) for found in ranked(scored, probabilities(scored.pairs.row, scored.strength), most)]


def apart(strength: Floats) -> Floats:
    """Return the probability of each pair as if it had no rivals: an entry may have several doubles."""
    return np.asarray(1 / (1 + np.exp(-strength)), np.float32)


def ranked(scored: Scored, probability: Floats, most: int = MOST) -> list[tuple[Candidate, ...]]:
    """Return the candidates of each query of the batch, the likeliest first."""
    order = np.lexsort((scored.pairs.entry, -probability, scored.pairs.row))
    row = scored.pairs.row[order]
    start = np.searchsorted(row, np.arange(scored.size + 1))
    rank = np.arange(len(order)) - start[row]
    shown = (rank < most) & (probability[order] >= LEAST_SCORE)
    found = evidence(scored, order[shown], probability)
    ends = np.searchsorted(row[shown], np.arange(scored.size + 1))
    return [tuple(found[a:b]) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


def evidence(scored: Scored, chosen: Ints, score: Floats) -> list[Candidate]:
    """Return the chosen pairs as candidates, with all that speaks for them."""
    index, pairs = scored.index, scored.pairs.where(chosen)
    return [
        Candidate(*each)
        for each in zip(
            taken(index.entries["id"], pairs.entry),
            taken(index.entries["name"], pairs.entry),
            score[chosen].tolist(),
            [scored.names.texts[place] for place in pairs.asked.tolist()],
            index.written(pairs.found),
            [_ORIGINS[origin] for origin in index.origin[pairs.found].tolist()],
            scored.features[chosen],
            pairs.entry.tolist(),
            strict=True,
        )
    ]


_ORIGINS = {int(origin): origin.name.lower() for origin in Origin}


def _judged(found: tuple[Candidate, ...], model: Model) -> Result:
    result = Result(Verdict.MATCHED, found)
    if found and found[0].score >= model.threshold and result.lead >= model.margin:
        return result
    likely = any(candidate.score >= model.floor for candidate in found)
    return Result(Verdict.AMBIGUOUS if likely else Verdict.NONE, found)
