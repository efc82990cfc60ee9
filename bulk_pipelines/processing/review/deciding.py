"""A reviewer decides about a row. The decision holds for every row that says the same. The row itself shows it at once;
other rows of the job show it when decisions are applied to the job; rows of later jobs show it when they are worked."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import audit, redrive
from bulk_pipelines.engine.jobs.audit import Actor, Tally
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.errors import Conflict, InvalidInput, NotFound
from bulk_pipelines.processing import types
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.results import Candidate
from bulk_pipelines.processing.review import keys, truth
from bulk_pipelines.processing.review.truth import UNDECIDED, Decision, Verdict
from bulk_pipelines.processing.submission import processing_job
from bulk_pipelines.processing.work import recipe_of_job

AT_A_TIME = 500


@dataclass(frozen=True)
class Decided:
    """What a decision came to."""

    decision: Decision
    outcome: str
    """The outcome that the row has now."""
    changed: bool
    """False if the same had been decided before."""

    def as_json(self) -> dict[str, Any]:
        entry = self.decision.entry
        return {
            "decision": self.decision.verdict.value,
            "entry": entry.as_json() if entry is not None else None,
            "rejected": list(self.decision.rejected),
            "outcome": self.outcome,
            "changed": self.changed,
        }


def decide(pool: Engine, job_key: str, item_key: str, verdict: str, entry: str | None, by: Actor) -> Decided:
    """Decide about a row: `accept` or `reject` the candidate `entry`, say that `none` is right, or leave it `open`
    again, as if nothing had been decided. The same decision again changes nothing."""
    told = checked(verdict, entry)
    with transaction(pool) as connection:
        job = processing_job(connection, job_key, by.sees)
    recipe = recipe_of_job(job)
    known = looked_up(pool, recipe, entry)
    with transaction(pool) as connection:
        item_id, row, result = row_to_decide(connection, job, item_key)
        said = keys.said(recipe, row)
        if not said:
            raise Conflict(
                f"row {item_key} has no value in the columns that the recipe looks up, so no decision is kept"
            )
        values = {"recipe": recipe.name, "key": keys.key_of(said)}
        connection.execute(queries.text("reviews", "one_at_a_time"), values)
        found = connection.execute(queries.text("reviews", "decision"), values).fetchone()
        before = truth.of_row(found) if found is not None else Decision()
        candidate = among(result, before, entry, known)
        if told is Verdict.ACCEPT and known is None and types.find(recipe.type).entries is not None:
            raise InvalidInput("entry", f"its reference no longer has {entry!r}")
        after = before.after(told, candidate)
        changed = not after.same(before)
        if changed:
            write(connection, values, after, said, result, by)
            audit.note(connection, by, "decide", job.job_id, row=item_key, verdict=told.value, entry=entry)
        holds = replace(after, by=by.name, at=None) if changed else replace(before, entry=after.entry)
        outcome = show(connection, job, recipe, {item_id: (row, result)}, {item_id: holds})[item_id]
    return Decided(holds, outcome, changed)


def checked(verdict: str, entry: str | None) -> Verdict:
    if verdict not in set(Verdict):
        raise InvalidInput("verdict", f"{verdict!r} is none of {', '.join(Verdict)}")
    wanted = verdict in (Verdict.ACCEPT, Verdict.REJECT)
    if wanted != (entry is not None):
        raise InvalidInput("entry", f"{verdict} is about a candidate" if wanted else f"{verdict} is about no candidate")
    if entry is not None:
        payload.text("entry", entry)
    return Verdict(verdict)


def looked_up(pool: Engine, recipe: Recipe, entry: str | None) -> Candidate | None:
    """Return the entry as its reference has it now, if the type of recipe can look entries up."""
    find = types.find(recipe.type).entries
    return find(pool, recipe, [entry]).get(entry) if find is not None and entry is not None else None


def row_to_decide(connection: Connection, job: Job, item_key: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    values = {"job_id": job.job_id, "item_key": payload.text("row", item_key)}
    found = connection.execute(queries.text("reviews", "row_to_decide"), values).fetchone()
    if found is None:
        raise NotFound(f"job {job.job_key} has no row {item_key!r}")
    item_id, state, row, result = found
    if state not in (ItemState.SUCCEEDED, ItemState.NOT_FOUND) or not (result or {}).get("evidence"):
        raise Conflict(f"row {item_key} is {state}: decide about it when it was looked up")
    return item_id, row, result if state == ItemState.SUCCEEDED else result | {"state": state}


def among(result: Mapping[str, Any], before: Decision, entry: str | None, known: Candidate | None) -> Candidate | None:
    """Return the candidate that a reviewer means: one of the row's, or another entry of the reference."""
    if entry is None:
        return None
    found = [Candidate.of_json(each) for each in result["evidence"].get("candidates") or ()]
    found += [before.entry] if before.entry is not None else []
    for each in found:
        if each.id == entry:
            return each.as_in(known) if known is not None else each
    if known is not None:
        return known
    raise InvalidInput("entry", f"{entry!r} is no candidate of this row: {', '.join(each.id for each in found)}")


def write(
    connection: Connection,
    values: Mapping[str, Any],
    decision: Decision,
    said: Mapping[str, str],
    result: Mapping[str, Any],
    by: Actor,
) -> None:
    if not decision.decides and not decision.rejected:
        connection.execute(queries.text("reviews", "forget_decision"), values)
        return
    evidence = result["evidence"]
    never = UNDECIDED not in evidence or evidence[UNDECIDED]["reason"] != truth.NEVER_LOOKED_UP["reason"]
    best = (evidence.get("candidates") or [None])[0] if never else None
    connection.execute(
        queries.text("reviews", "write_decision"),
        {
            **values,
            "verdict": decision.verdict.value,
            "entry": payload.encode("entry", decision.entry.as_json()) if decision.entry is not None else None,
            "rejected": list(decision.rejected),
            "said": json.dumps(said, ensure_ascii=False),
            "best_id": best and best["id"],
            "best_score": best and best["score"],
            "lead": evidence.get("lead") if best else None,
            "decided_by": payload.text("actor", by.name),
        },
    )


Rows = Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Rows of the source and their results, by the ids of their items."""


def show(
    connection: Connection, job: Job, recipe: Recipe, rows: Rows, decisions: Mapping[int, Decision]
) -> dict[int, str]:
    """Write the results of rows that are done as the decisions make them, and return their outcomes. A row for which
    nothing was found keeps its state: it is tried again when the decisions are applied."""
    outcomes: dict[int, str] = {}
    written: dict[int, str] = {}
    moved: Counter[str] = Counter()
    for item_id, (row, result) in rows.items():
        outcomes[item_id] = result["outcome"]
        if result.get("state") == ItemState.NOT_FOUND:
            continue
        before = truth.found_before(result["evidence"])
        taken = result["evidence"].get(truth.TAKEN) or ()
        decision = decisions.get(item_id, Decision())
        _, new = truth.result_of(recipe, row, before, decision, result.get("envelope") or {}, taken)
        if new == result:
            continue
        written[item_id] = payload.encode("result", new)
        outcomes[item_id] = new["outcome"]
        moved[new["outcome"]] += 1
        moved[result["outcome"]] -= 1
    if written:
        given = {"item_ids": list(written), "results": list(written.values())}
        connection.execute(queries.text("reviews", "write_results"), given)
    if any(moved.values()):
        counts = {"job_id": job.job_id, "outcomes": list(moved), "counts": list(moved.values())}
        connection.execute(queries.text("reviews", "move_outcomes"), counts)
    return outcomes


def apply(pool: Engine, job_key: str, by: Actor | None) -> int:
    """Apply all decisions to the rows of a job that are done, and return how many rows changed. Rows for which nothing
    was found, and about which something was decided, are tried again. This may be cut short and repeated."""
    with transaction(pool) as connection:
        job = processing_job(connection, job_key, None if by is None else by.sees)
    if job.status is JobState.CANCELLED:
        raise Conflict(f"job {job_key} is CANCELLED: decisions are not applied to it")
    recipe, tally = recipe_of_job(job), Tally(by, "apply decisions")
    changed, after = 0, ""
    now: dict[str, Candidate | None] = {}
    while True:
        with transaction(pool) as connection:
            values = {"job_id": job.job_id, "after": after, "size": AT_A_TIME}
            page = connection.execute(queries.text("reviews", "settled_rows"), values).fetchall()
            if not page:
                return changed
            found = truth.of_rows(connection, recipe, {item_id: row for item_id, _, _, row, _ in page})
            unseen = truth.accepted(recipe, found) - now.keys()
            decided = truth.holding(found, now)
            if not unseen:
                count = applied(connection, job, recipe, page, decided)
                tally.add(connection, job.job_id, count)
        if unseen:  # entries are looked up on a connection of their own, so the page is read again
            now |= truth.entries_now(pool, recipe, unseen)
            continue
        again = [item_id for item_id, _, state, _, _ in page if state == ItemState.NOT_FOUND and item_id in decided]
        if again:
            count += redrive.redrive(pool, job_key, [ItemState.NOT_FOUND], again, by=by)
        changed, after, now = changed + count, page[-1][1], {}


def applied(
    connection: Connection, job: Job, recipe: Recipe, page: Sequence[Sequence[Any]], decided: Mapping[int, Decision]
) -> int:
    """Show decisions in those rows of a page that have succeeded, and return how many have another outcome."""
    concerned = {
        item_id: (row, result)
        for item_id, _, state, row, result in page
        if state == ItemState.SUCCEEDED and (item_id in decided or result["evidence"].get("decision"))
    }
    outcomes = show(connection, job, recipe, concerned, decided)
    return sum(outcomes[item_id] != result["outcome"] for item_id, (_, result) in concerned.items())
