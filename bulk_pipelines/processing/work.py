"""Working the rows of a job: each is looked up as its job's recipe says, and what came of it is told to the engine."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from bulk_pipelines import settings
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Bury, Unfinished
from bulk_pipelines.engine.rate_limit import Stopped
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import Failure, InvalidInput
from bulk_pipelines.processing import envelope, results, types
from bulk_pipelines.processing.intake.records import UNREADABLE
from bulk_pipelines.processing.providers.answers import Serving
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.library import Library
from bulk_pipelines.processing.recipes.types import Looked, Try
from bulk_pipelines.processing.request import ProcessingRequest
from bulk_pipelines.telemetry import spans

VARIANTS = "variants"
"""The field of a checkpoint by which somebody names the variants to try."""
AGAIN = "again"
"""The field that says when somebody wanted the row to be tried again."""


@lru_cache(maxsize=8)
def recipe_of(params: str) -> Recipe:
    return ProcessingRequest.from_params(json.loads(params)).recipe


def recipe_of_job(job: Job) -> Recipe:
    """Return the recipe as it was when the job was submitted."""
    return recipe_of(json.dumps(job.params, sort_keys=True))


@dataclass(frozen=True)
class Prepared:
    """What was looked up for all rows of a claim together."""

    looked: dict[int, Looked]


def tries_of(leases: Sequence[Lease], job: Job, recipe: Recipe) -> list[Try]:
    return [
        Try(
            lease.item_id,
            lease.input,
            lease.attempt_count,
            recipe.variants_of(lease.attempt_count, tuple((lease.checkpoint or {}).get(VARIANTS) or ())),
            envelope.of(job, lease, recipe.type, recipe.attempts),
            serving(lease, job),
            job.params.get("source", ""),
        )
        for lease in leases
    ]


def serving(lease: Lease, job: Job) -> Serving:
    """Return which kept answers serve a try. What the job has asked for itself serves all its rows, but a retry asks
    again for what has grown too old. After somebody wanted rows to be tried again, older answers do not serve."""
    again = (lease.checkpoint or {}).get(AGAIN)
    if again is not None:
        return Serving(not_before=datetime.fromisoformat(again))
    return Serving(since=job.created_at if lease.attempt_count == 1 else None)


def desk(tools: Tools, declared: Library) -> Desk:
    return Desk(tools.pool, declared.providers, lambda provider: tools.limiter(provider.limit), stopping=tools.stopping)


@lru_cache(maxsize=1)
def declared() -> Library:
    """Return the declarations of this process. A worker reads them once."""
    return library.load(settings.current())


def prepare(leases: Sequence[Lease], tools: Tools) -> None:
    """Look up the rows of a claim together, when their recipe can do that."""
    recipe = recipe_of_job(tools.job)
    kind = types.find(recipe.type)
    assert kind.look_all is not None, "other kinds have nothing to prepare"
    tools.prepared = Prepared({})
    readable = tries_of([each for each in leases if UNREADABLE not in each.input], tools.job, recipe)
    with suppress(Stopped):  # then the rows have no finding, and go back
        tools.prepared = Prepared(dict(kind.look_all(recipe, readable, desk(tools, declared()))))


def handle(lease: Lease, tools: Tools) -> outcomes.Outcome:
    recipe = recipe_of_job(tools.job)
    tried = tries_of([lease], tools.job, recipe)[0]
    if UNREADABLE in lease.input:
        return unreadable(recipe, tried)
    try:
        looked = look(recipe, tried, tools)
    except Stopped:
        return Unfinished()
    result = results.as_result(recipe, tried.row, looked.finding, tried.envelope.as_json())
    return results.settled(looked.finding, result, looked.error)


def look(recipe: Recipe, tried: Try, tools: Tools) -> Looked:
    kind = types.find(recipe.type)
    if kind.look is None:
        assert isinstance(tools.prepared, Prepared)
        found = tools.prepared.looked.get(tried.item_id)
        if found is None:
            raise Stopped
        return found
    try:
        with spans.span("item", own=tried.envelope.trace_parent, item_key=tried.envelope.item_key):
            return kind.look(recipe, tried, desk(tools, declared()))
    except (Failure, InvalidInput) as error:
        return Looked(results.failed(error), error)


def unreadable(recipe: Recipe, tried: Try) -> Bury:
    reason = f"the record cannot be read: {tried.row[UNREADABLE]}"
    finding = results.Finding(results.Outcome.FAILED, reason=reason)
    return Bury(reason, result=results.as_result(recipe, tried.row, finding, tried.envelope.as_json()))
