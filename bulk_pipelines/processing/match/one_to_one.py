"""Some recipes match no entry with two rows of a job. That can only be decided when all rows are done: then the surest
row keeps its entry, and the others are judged anew without it.

Each round takes an entry from all rows but its surest one. A row never gets back what it lost, so the rounds come to an
end, and where they were cut short they go on to the same result.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.processing import types
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.results import Candidate, Finding, Outcome
from bulk_pipelines.processing.review import truth
from bulk_pipelines.processing.review.truth import TAKEN
from bulk_pipelines.processing.work import recipe_of_job

AT_A_TIME = 500


def reconcile(pool: Engine, job: Job) -> bool:
    """Take entries from the rows that are less sure of them, until each is matched once. False if the job was paused or
    cancelled meanwhile."""
    recipe = recipe_of_job(job)
    unique = types.find(recipe.type).unique
    if unique is None or not unique(recipe):
        return True
    while losers := less_sure(pool, job):
        for start in range(0, len(losers), AT_A_TIME):
            with transaction(pool) as connection:
                if jobs.find(connection, job.job_key).status is not JobState.RUNNING:
                    return False
            judge_anew(pool, recipe, dict(losers[start : start + AT_A_TIME]))
    return True


def less_sure(pool: Engine, job: Job) -> list[tuple[int, str]]:
    """Return the items that are matched with an entry of which another row is surer, and these entries."""
    with transaction(pool) as connection:
        return connection.execute(queries.text("reviews", "less_sure"), {"job_id": job.job_id}).fetchall()


def judge_anew(pool: Engine, recipe: Recipe, losers: Mapping[int, str]) -> None:
    """Write the results of rows that lose their entries. A row that a reviewer has decided about meanwhile, so that it
    is matched with another entry, is left alone."""
    values = {"item_ids": list(losers), "entries": list(losers.values())}
    with transaction(pool) as connection:
        rows = connection.execute(queries.text("reviews", "losing_rows"), values).fetchall()
        judged = {item_id: without_its_entry(recipe, row, result) for item_id, row, result in rows}
        matched = {each.best.id for each, _ in judged.values() if each.outcome is Outcome.MATCHED and each.best}
        known = shown(pool, recipe, matched)
        written = {}
        for item_id, row, result in rows:
            _, taken = judged[item_id]
            before = truth.found_before(result["evidence"])
            seen = [each.as_in(known[each.id]) if each.id in known else each for each in before.candidates]
            found = replace(before, candidates=tuple(seen))
            decision = truth.of_evidence(result["evidence"])
            _, new = truth.result_of(recipe, row, found, decision, result.get("envelope") or {}, taken)
            written[item_id] = payload.encode("result", new)
        write(connection, written)


def without_its_entry(
    recipe: Recipe, row: Mapping[str, Any], result: Mapping[str, Any]
) -> tuple[Finding, tuple[str, ...]]:
    """Return what a row comes to without the entry that it is matched with, and all that it has lost."""
    evidence = result["evidence"]
    taken = (*(evidence.get(TAKEN) or ()), evidence["id"])
    found = truth.found_before(evidence)
    return truth.result_of(recipe, row, found, truth.of_evidence(evidence), {}, taken)[0], taken


def shown(pool: Engine, recipe: Recipe, ids: Collection[str]) -> Mapping[str, Candidate]:
    entries = types.find(recipe.type).entries
    return entries(pool, recipe, ids) if entries is not None and ids else {}


def write(connection: Connection, written: Mapping[int, str]) -> None:
    given = {"item_ids": list(written), "results": list(written.values())}
    connection.execute(queries.text("reviews", "write_results"), given)
