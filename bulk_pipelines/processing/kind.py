"""What the engine is told of processing: there is a kind of job for each type of recipe. A job's recipe sets the
budgets of its attempts."""

from dataclasses import replace

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.limits import Limits, limits_of
from bulk_pipelines.processing import completion, types, work
from bulk_pipelines.processing.match import one_to_one
from bulk_pipelines.processing.providers import requests_made
from bulk_pipelines.processing.recipes.declaration import MOST_ATTEMPTS
from bulk_pipelines.processing.recipes.types import RecipeType
from bulk_pipelines.processing.request import kind_name
from bulk_pipelines.settings.engine import EngineSettings


def kind_of(recipe_type: RecipeType, limits: Limits) -> Kind:
    most = min(recipe_type.claim, limits.slices.max_claim)
    least = min(recipe_type.claim_least, most)
    return Kind(
        kind_name(recipe_type.name),
        work.handle,
        prepare=work.prepare,
        count=requests_made.write,
        reconcile=one_to_one.reconcile if recipe_type.unique is not None else recipe_type.reconcile,
        finish=completion.finish,
        # The budget of a kind without a job is as large as that of any recipe.
        retry=replace(limits.retry, max_attempts=MOST_ATTEMPTS, not_found_attempts=MOST_ATTEMPTS),
        slices=replace(
            limits.slices,
            max_claim=most,
            min_claim=max(least, min(limits.slices.min_claim, most)),
            first_claim=max(least, min(limits.slices.first_claim, most)),
        ),
        settling=limits.settling,
        adapt=adapted,
    )


def adapted(job: Job, kind: Kind) -> Kind:
    recipe = work.recipe_of_job(job)
    recipe_type = types.find(recipe.type)
    together = recipe_type.look_all is not None
    return replace(
        kind,
        retry=replace(kind.retry, max_attempts=recipe.attempts, not_found_attempts=types.not_found_attempts(recipe)),
        concurrency=1 if together else recipe.at_once,
    )


def kinds_of(limits: Limits) -> Kinds:
    return Kinds(kind_of(each, limits) for each in types.TYPES.values())


KINDS = kinds_of(limits_of(EngineSettings()))
"""The kinds with the default limits. To submit a job, only their names are needed."""
