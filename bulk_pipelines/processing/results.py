"""What came of one row: an outcome, the cells of the grid, and the evidence for them."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from bulk_pipelines.counted import counted
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.outcomes import Bury, Done, NotFound, RetryLater, Skip
from bulk_pipelines.errors import ErrorClass, Failure
from bulk_pipelines.processing.recipes import templates
from bulk_pipelines.processing.recipes.declaration import Recipe, Source

CANDIDATES_KEPT = 5
FAULTS_KEPT = 20
LARGEST_KEPT = 20_000
"""The longest JSON of a candidate's values, or of its features, that is kept for reviewers, in characters."""
LONGEST_NAME = 1_000
"""How many characters of a candidate's name are kept."""


class Outcome(StrEnum):
    """What came of a row. The states of items cannot tell the first two apart, nor a throttled row from one that waits
    for another reason."""

    MATCHED = "matched"
    AMBIGUOUS = "ambiguous"
    NO_MATCH = "no match"
    SKIPPED = "skipped"
    THROTTLED = "throttled"
    FAILED = "failed"


@dataclass(frozen=True)
class Candidate:
    """Something that a row may stand for."""

    id: str
    name: str
    score: float | None
    answer: Mapping[str, Any] = field(default_factory=dict)
    """The values for the grid."""
    features: Mapping[str, Any] = field(default_factory=dict)
    """What the score was made of."""

    def as_json(self) -> dict[str, Any]:
        score = None if self.score is None else round(self.score, 4)
        besides = {"answer": dict(self.answer), "features": dict(self.features)}
        # Several large ones would be more than an item can keep.
        kept = {name: value for name, value in besides.items() if value and len(json.dumps(value)) <= LARGEST_KEPT}
        return {"id": self.id, "name": self.name[:LONGEST_NAME], "score": score} | kept

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Self:
        return cls(given["id"], given["name"], given["score"], given.get("answer") or {}, given.get("features") or {})

    def as_in(self, reference: "Candidate") -> "Candidate":
        """Return the candidate with the name and the values that its reference has now."""
        return replace(self, name=reference.name, answer=reference.answer)


@dataclass(frozen=True)
class Origin:
    """Where candidates came from."""

    variant: str
    provider: str
    cached: bool = False
    asked_at: datetime | None = None
    """When the answer was asked for, if it was kept; else None."""


@dataclass(frozen=True)
class Finding:
    """What was found for a row, before the engine is told an outcome."""

    outcome: Outcome
    candidates: tuple[Candidate, ...] = ()
    """The best first."""
    origin: Origin | None = None
    reason: str = ""
    faults: tuple[str, ...] = ()
    """What went wrong on the way."""

    @property
    def best(self) -> Candidate | None:
        return self.candidates[0] if self.candidates else None

    @property
    def lead(self) -> float | None:
        """How much better the best candidate is than the second."""
        scores = [each.score for each in self.candidates[:2]]
        if not scores or None in scores:
            return None
        return round(scores[0] - (scores[1] if len(scores) > 1 else 0.0), 4)  # type: ignore[operator]

    def evidence(self) -> dict[str, Any]:
        best = self.best if self.outcome is Outcome.MATCHED else None
        score = None if self.best is None or self.best.score is None else round(self.best.score, 4)
        origin = self.origin
        return {
            "outcome": self.outcome.value,
            "id": best and best.id,
            "name": best and best.name[:LONGEST_NAME],
            "score": score,
            "lead": self.lead,
            "variant": origin and origin.variant,
            "provider": origin and origin.provider,
            "cached": origin and origin.cached,
            "asked_at": origin.asked_at.isoformat() if origin and origin.asked_at else None,
            "candidates": [each.as_json() for each in self.candidates[:CANDIDATES_KEPT]],
            "reason": self.reason or None,
            "faults": list(self.faults[:FAULTS_KEPT]),
        }


def share(score: float, scale: float) -> float:
    """Return a score as a share of the best possible one, from 0 to 1. It is bounded first, because JSON may hold whole
    numbers that are too large for a division."""
    return min(max(score, 0.0), scale) / scale


def judged(recipe: Recipe, candidates: Sequence[Candidate], origin: Origin, *, take_first: bool = False) -> Finding:
    """Decide between candidates by the recipe's threshold and margin. A candidate without a score matches only if it is
    the only one, or if the first one of the provider is to be taken."""
    worth = [each for each in candidates if each.score is None or each.score >= recipe.floor]
    ordered = tuple(sorted(worth, key=lambda each: -1.0 if each.score is None else -each.score))
    if not ordered:
        return Finding(Outcome.NO_MATCH, (), origin, "no candidate was found")
    found = Finding(Outcome.AMBIGUOUS, ordered, origin)
    best = ordered[0]
    if best.score is None:
        if len(ordered) == 1 or take_first:
            return Finding(Outcome.MATCHED, ordered, origin)
        return Finding(Outcome.AMBIGUOUS, ordered, origin, f"{counted(len(ordered), 'candidate')} without scores")
    if best.score < recipe.threshold:
        why = f"the best score {best.score:.2f} is below {recipe.threshold:g}"
        return Finding(Outcome.AMBIGUOUS, ordered, origin, why)
    if len(ordered) > 1 and not (take_first and recipe.margin == 0) and not clear(found.lead, recipe.margin):
        why = f"the lead {found.lead} over the second is below {recipe.margin:g}"
        return Finding(Outcome.AMBIGUOUS, ordered, origin, why if recipe.margin else "two candidates are equally good")
    return Finding(Outcome.MATCHED, ordered, origin)


def without(recipe: Recipe, finding: Finding, rejected: Collection[str]) -> Finding:
    """Judge a finding anew without some of its candidates."""
    left = [each for each in finding.candidates if each.id not in rejected]
    if len(left) == len(finding.candidates):
        return finding
    origin = finding.origin or Origin("", "")
    if not left:
        return Finding(Outcome.NO_MATCH, (), origin, "a reviewer rejected every candidate")
    return replace(judged(recipe, left, origin), faults=finding.faults)


def clear(lead: float | None, margin: float) -> bool:
    """Whether a candidate leads by enough. With equal scores none does."""
    return lead is not None and lead > 0 and lead >= margin


def failed(error: Exception, *faults: str) -> Finding:
    """Return the finding of a row that a failure kept from being looked up."""
    throttled = isinstance(error, Failure) and error.error_class is ErrorClass.THROTTLED
    return Finding(Outcome.THROTTLED if throttled else Outcome.FAILED, reason=outcomes.text(error), faults=faults)


def shown(value: Any) -> str | None:
    """Return a value of an answer as the grid shows it."""
    if value is None:
        return None
    if isinstance(value, list) and all(not isinstance(each, dict | list) for each in value):
        return "; ".join(templates.text_of(each) for each in value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return templates.text_of(value)


def as_result(
    recipe: Recipe,
    row: Mapping[str, Any],
    finding: Finding,
    envelope: Mapping[str, Any],
    *,
    note: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> dict[str, Any]:
    """Return the result that the item keeps: the grid's columns in their display shape, the outcome, and the evidence,
    to which `note` adds."""
    evidence = note(finding.evidence())
    answer = finding.best.answer if finding.best is not None and finding.outcome is Outcome.MATCHED else {}
    sources: dict[Source, Mapping[str, Any]] = {
        Source.INPUT: row,
        Source.ANSWER: answer,
        Source.EVIDENCE: evidence | {"candidates": names(finding.candidates)},
    }
    grid = {each.header: shown(sources[each.source].get(each.key)) for each in recipe.columns}
    return {"outcome": evidence["outcome"], "grid": grid, "evidence": evidence, "envelope": dict(envelope)}


def names(candidates: Sequence[Candidate]) -> list[str]:
    return [f"{each.name[:LONGEST_NAME]} ({each.id})" for each in candidates[:CANDIDATES_KEPT]]


def settled(finding: Finding, result: dict[str, Any], error: Exception | None) -> outcomes.Outcome:
    """Return what the engine is told of a row."""
    match finding.outcome:
        case Outcome.MATCHED | Outcome.AMBIGUOUS:
            return Done(result)
        case Outcome.NO_MATCH:
            return NotFound(finding.reason, result)
        case Outcome.SKIPPED:
            return Skip(finding.reason, result)
    return of_error(error or RuntimeError(finding.reason), finding.reason, result)


def of_error(error: Exception, reason: str, result: dict[str, Any]) -> outcomes.Outcome:
    error_class = error.error_class if isinstance(error, Failure) else ErrorClass.UNKNOWN
    if error_class is ErrorClass.PERMANENT:
        return Bury(reason, result=result)
    if isinstance(error, Failure):
        return RetryLater(reason, error.retry_after, error_class, result, error.counted)
    return RetryLater(reason, error_class=error_class, result=result)
