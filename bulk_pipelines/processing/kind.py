"""The kinds of job that processing is to the engine: one for each type of recipe. A job's recipe says the budgets."""

from dataclasses import replace

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.processing import completion, types, work
from bulk_pipelines.processing.recipes.types import RecipeType
from bulk_pipelines.processing.request import kind_name

MOST_TRIES = 20
"""The budget of a kind without a job: more than any recipe has."""


def kind_of(recipe_type: RecipeType) -> Kind:
    return Kind(
        kind_name(recipe_type.name),
        work.handle,
        prepare=work.prepare if recipe_type.look_all is not None else None,
        finish=completion.finish,
        retry=RetryPolicy(max_attempts=MOST_TRIES, not_found_attempts=MOST_TRIES),
        slices=SliceLimits(max_claim=recipe_type.claim, first_claim=min(16, recipe_type.claim)),
        adapt=adapted,
    )


def adapted(job: Job, kind: Kind) -> Kind:
    recipe = work.recipe_of_job(job)
    together = kind.prepare is not None
    return replace(
        kind,
        retry=replace(kind.retry, max_attempts=recipe.attempts, not_found_attempts=recipe.not_found_attempts),
        concurrency=1 if together else recipe.at_once,
    )


KINDS = Kinds(kind_of(each) for each in types.TYPES.values())
