"""Working the rows of a job: each is looked up as its job's recipe says, and what came of it is told to the engine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
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
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.library import Library
from bulk_pipelines.processing.recipes.types import Looked, Try
from bulk_pipelines.processing.request import ProcessingRequest

VARIANTS = "variants"
"""The field of a checkpoint by which a redrive names the variants to try."""


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
            recipe.variants_of(lease.attempt_count, tuple((lease.checkpoint or {}).get(VARIANTS, ()))),
            envelope.of(job, lease, recipe.type, recipe.attempts),
            job.created_at if lease.attempt_count == 1 else None,
        )
        for lease in leases
    ]


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
    tools.prepared = None
    if kind.look_all is None:
        return
    readable = [each for each in leases if UNREADABLE not in each.input]
    tools.prepared = Prepared(
        dict(kind.look_all(recipe, tries_of(readable, tools.job, recipe), desk(tools, declared())))
    )


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
        return tools.prepared.looked[tried.item_id]
    try:
        return kind.look(recipe, tried, desk(tools, declared()))
    except (Failure, InvalidInput) as error:
        return Looked(results.failed(error), error)


def unreadable(recipe: Recipe, tried: Try) -> Bury:
    reason = f"the record cannot be read: {tried.row[UNREADABLE]}"
    finding = results.Finding(results.Outcome.FAILED, reason=reason)
    return Bury(reason, result=results.as_result(recipe, tried.row, finding, tried.envelope.as_json()))
