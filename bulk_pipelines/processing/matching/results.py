"""What the matcher answers: verdicts with their candidates, and the evidence for each."""

from dataclasses import dataclass
from enum import StrEnum

from bulk_pipelines.processing.matching.features import FEATURES
from bulk_pipelines.processing.matching.grams import Floats


class Verdict(StrEnum):
    """What came of a query: it means one entry, it may mean several, or it means none."""

    MATCHED = "matched"
    AMBIGUOUS = "ambiguous"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that may be meant, and why."""

    id: str
    name: str
    score: float  # the probability that it is the right one, out of this reference
    asked: str  # which of the query's names it is like
    found: str  # what of the entry that name is like …
    origin: str  # … and whether that is a name, an acronym, or comes from a website
    values: Floats
    entry: int  # its number in the index

    @property
    def features(self) -> dict[str, float]:
        return {name: round(float(value), 4) for name, value in zip(FEATURES, self.values, strict=True)}


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one query. The best candidate comes first."""

    verdict: Verdict
    candidates: tuple[Candidate, ...] = ()

    @property
    def best(self) -> Candidate | None:
        """Return the entry that is meant, if one is."""
        return self.candidates[0] if self.verdict is Verdict.MATCHED else None

    @property
    def lead(self) -> float:
        """Return how far the first candidate is ahead of the second."""
        first, second = ([each.score for each in self.candidates] + [0.0, 0.0])[:2]
        return first - second
