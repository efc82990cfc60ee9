"""Decisions about rows, and what they make of a finding. A decision outweighs everything that a recipe finds by
itself."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.processing import results, types
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.results import Candidate, Finding, Origin, Outcome
from bulk_pipelines.processing.review import keys

UNDECIDED = "undecided"
"""The field of the evidence that says what the recipe found by itself. It is shown again if the decision is taken
back."""
TAKEN = "taken"
"""The field that names the entries which surer rows of the job are matched with."""
NEVER_LOOKED_UP = {"outcome": Outcome.AMBIGUOUS.value, "reason": "it was decided before, and never looked up"}


class Verdict(StrEnum):
    """What a reviewer says of a row. `REJECT` is about one candidate, and `OPEN` takes everything back."""

    ACCEPT = "accept"
    REJECT = "reject"
    NONE = "none"
    OPEN = "open"


@dataclass(frozen=True)
class Decision:
    """What was decided about all rows that say the same. Its verdict is never a rejection: rejected candidates are
    listed beside it."""

    verdict: Verdict = Verdict.OPEN
    entry: Candidate | None = None
    rejected: tuple[str, ...] = ()
    by: str = ""
    at: datetime | None = None

    @property
    def decides(self) -> bool:
        """Whether the row is decided, so that nothing need be looked up."""
        return self.verdict is not Verdict.OPEN

    def same(self, other: "Decision") -> bool:
        def told(each: Decision) -> tuple[Any, ...]:
            return each.verdict, each.entry and each.entry.id, set(each.rejected)

        return told(self) == told(other)

    def after(self, verdict: Verdict, entry: Candidate | None) -> "Decision":
        """Return the decision that holds after a reviewer has also said this."""
        match verdict:
            case Verdict.ACCEPT:
                assert entry is not None, "a candidate is accepted"
                return Decision(verdict, entry, tuple(each for each in self.rejected if each != entry.id))
            case Verdict.REJECT:
                assert entry is not None, "a candidate is rejected"
                rejected = tuple(dict.fromkeys((*self.rejected, entry.id)))
                holds = self.entry is None or self.entry.id != entry.id
                return replace(self, rejected=rejected) if holds else Decision(rejected=rejected)
            case Verdict.NONE:
                return Decision(verdict, None, self.rejected)
        return Decision()


def of_row(row: Sequence[Any]) -> Decision:
    _, verdict, entry, rejected, by, at = row
    return Decision(Verdict(verdict), entry and Candidate.of_json(entry), tuple(rejected), by, at)


def of_evidence(evidence: Mapping[str, Any]) -> Decision:
    """Return the rejections that a row was judged with."""
    return Decision(rejected=tuple(evidence.get("rejected") or ()), by=evidence.get("decided_by") or "")


def of_rows(connection: Connection, recipe: Recipe, rows: Mapping[int, Mapping[str, Any]]) -> dict[int, Decision]:
    """Return what was decided about these rows, by their numbers. Whether accepted entries still exist is not looked up
    here: `holding` goes by that."""
    asked = {number: keys.key_of(said) for number, row in rows.items() if (said := keys.said(recipe, row))}
    values = {"recipe": recipe.name, "keys": sorted(set(asked.values()))}
    found = {bytes(row[0]): of_row(row) for row in connection.execute(queries.text("reviews", "decisions"), values)}
    return {number: found[key] for number, key in asked.items() if key in found}


Entries = Mapping[str, Candidate | None]
"""Entries as their reference has them now, by their ids. It no longer has those that are None."""


def accepted(recipe: Recipe, decisions: Mapping[int, Decision]) -> set[str]:
    """Return the accepted entries that can be looked up in a reference, which may have changed or lost them."""
    if types.find(recipe.type).entries is None:
        return set()
    return {each.entry.id for each in decisions.values() if each.entry is not None}


def entries_now(pool: Engine, recipe: Recipe, ids: Collection[str]) -> Entries:
    find = types.find(recipe.type).entries
    known = find(pool, recipe, ids) if find is not None and ids else {}
    return {each: known.get(each) for each in ids}


def holding(decisions: Mapping[int, Decision], now: Entries) -> dict[int, Decision]:
    """Return the decisions that hold, with their entries as they are `now`. That an entry was accepted does not count
    when its reference has lost it; what was rejected beside it stays rejected."""
    held = {}
    for number, each in decisions.items():
        if each.entry is None or each.entry.id not in now:
            held[number] = each
        elif (entry := now[each.entry.id]) is not None:
            held[number] = replace(each, entry=each.entry.as_in(entry))
        elif each.rejected:
            held[number] = replace(each, verdict=Verdict.OPEN, entry=None)
    return held


def finding(recipe: Recipe, found: Finding | None, decision: Decision, taken: Sequence[str]) -> Finding:
    """Return what a decision makes of a finding, which is None if the row was never looked up. Entries that other rows
    have `taken` are no candidates."""
    faults, origin = ((), None) if found is None else (found.faults, found.origin)
    if decision.verdict is Verdict.ACCEPT:
        assert decision.entry is not None, "the database checks it"
        return Finding(Outcome.MATCHED, (decision.entry,), origin, "a reviewer chose it", faults)
    if decision.verdict is Verdict.NONE:
        return Finding(Outcome.NO_MATCH, (), origin, "a reviewer found that none is right", faults)
    assert found is not None, "a rejection is about what was found"
    if not decision.rejected and not taken:
        return found
    kind = types.find(recipe.type)
    left = kind.without(kind.judging(recipe), found, {*decision.rejected, *taken})
    if not taken or left.outcome is Outcome.MATCHED:
        return left
    return replace(left, reason=f"a surer row is matched with {', '.join(taken)}; {left.reason}")


def noted(
    evidence: dict[str, Any], before: Mapping[str, Any], decision: Decision, taken: Sequence[str]
) -> dict[str, Any]:
    """Return the evidence with the decision in it, and with what was found before it."""
    decided = decision.decides or bool(decision.rejected)
    if not decided and not taken:
        return evidence
    kept = {
        "lead": before.get("lead"),
        "candidates": before["candidates"],
        UNDECIDED: {"outcome": before["outcome"], "reason": before["reason"]},
    }
    kept |= {TAKEN: list(taken)} if taken else {}
    if not decided:
        return evidence | kept
    return (
        evidence
        | kept
        | {
            "decision": decision.verdict.value,
            "decided_by": decision.by,
            "rejected": list(decision.rejected),
        }
    )


def never_looked_up(decision: Decision) -> dict[str, Any]:
    """Return what stands for a finding in the evidence of a row that was decided before it was looked up."""
    return NEVER_LOOKED_UP | {"candidates": [decision.entry.as_json()] if decision.entry is not None else []}


def found_before(evidence: Mapping[str, Any]) -> Finding:
    """Return what the recipe found by itself, from the evidence that an item keeps."""
    undecided = evidence.get(UNDECIDED) or evidence
    asked_at = evidence.get("asked_at")
    origin = Origin(
        evidence.get("variant") or "",
        evidence.get("provider") or "",
        bool(evidence.get("cached")),
        datetime.fromisoformat(asked_at) if asked_at else None,
    )
    return Finding(
        Outcome(undecided["outcome"]),
        tuple(Candidate.of_json(each) for each in evidence.get("candidates") or ()),
        origin if origin.provider else None,
        undecided.get("reason") or "",
        tuple(evidence.get("faults") or ()),
    )


def result_of(
    recipe: Recipe,
    row: Mapping[str, Any],
    found: Finding | None,
    decision: Decision,
    envelope: Mapping[str, Any],
    taken: Sequence[str] = (),
) -> tuple[Finding, dict[str, Any]]:
    """Return the finding and the result of a row, as the decision about it makes them."""
    before = never_looked_up(decision) if found is None else found.evidence()
    now = finding(recipe, found, decision, taken)

    def note(evidence: dict[str, Any]) -> dict[str, Any]:
        return noted(evidence, before, decision, taken)

    return now, results.as_result(recipe, row, now, envelope, note=note)
