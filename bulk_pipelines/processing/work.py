"""The rows of a job are worked: each is looked up as the job's recipe says, and the engine is told what came of it."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Bury, Done, Unfinished
from bulk_pipelines.engine.rate_limit import Stopped
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import Failure, InvalidInput
from bulk_pipelines.processing import envelope, results, types
from bulk_pipelines.processing.intake.rows import UNREADABLE
from bulk_pipelines.processing.providers.answers import Serving
from bulk_pipelines.processing.providers.asking import Desk
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.declaration import Recipe
from bulk_pipelines.processing.recipes.library import Library
from bulk_pipelines.processing.recipes.types import Looked, Try
from bulk_pipelines.processing.request import ProcessingRequest
from bulk_pipelines.processing.review import truth
from bulk_pipelines.processing.review.truth import Decision
from bulk_pipelines.telemetry import context, events, spans

VARIANTS = "variants"
"""The field of a checkpoint that names the variants which somebody wants to be tried."""
AGAIN = "again"
"""The field of a checkpoint that says when somebody wanted the row to be tried again."""


def recipe_of_job(job: Job) -> Recipe:
    """Return the recipe as it was when the job was submitted."""
    return ProcessingRequest.from_params(job.params).recipe


@dataclass(frozen=True)
class Prepared:
    """What was looked up for all rows of a claim together, and what had been decided about them."""

    decisions: Mapping[int, Decision] = field(default_factory=dict)
    looked: Mapping[int, Looked] = field(default_factory=dict)


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
    """Return which kept answers a try may use. A first try may use all that were asked for since the job was made; a
    retry asks again for what has grown too old. If somebody wanted the row to be tried again, no answer from before
    that may be used."""
    again = (lease.checkpoint or {}).get(AGAIN)
    if again is not None:
        return Serving(not_before=datetime.fromisoformat(again))
    return Serving(since=job.created_at if lease.attempt_count == 1 else None)


def desk(tools: Tools, declared: Library) -> Desk:
    def count(provider: str, status: str, waited: float, throttled: float) -> None:
        tools.counting.add((provider, status), 1, waited, throttled)

    return Desk(tools.pool, declared.providers, tools.limiter, stopping=tools.stopping, count=count)


@lru_cache(maxsize=1)
def declared() -> Library:
    """Return the declarations of this process. A worker reads them once."""
    return library.load(settings.current())


def prepare(leases: Sequence[Lease], tools: Tools) -> None:
    """Read what was decided about the rows of a claim, and look up the others together if their recipe can do that."""
    recipe = recipe_of_job(tools.job)
    kind = types.find(recipe.type)
    readable = [each for each in leases if UNREADABLE not in each.input]
    decisions = decided(recipe, readable, tools)
    tools.prepared = Prepared(decisions)
    if kind.look_all is None:
        return
    open_ = [each for each in readable if each.item_id not in decisions or not decisions[each.item_id].decides]
    with suppress(Stopped):  # the rows then have no finding, and are given back
        found = kind.look_all(recipe, tries_of(open_, tools.job, recipe), desk(tools, declared())) if open_ else {}
        tools.prepared = Prepared(decisions, dict(found))


def decided(recipe: Recipe, leases: Sequence[Lease], tools: Tools) -> dict[int, Decision]:
    """Return the decisions about the rows of a claim that hold."""
    with transaction(tools.pool) as connection:
        found = truth.of_rows(connection, recipe, {each.item_id: each.input for each in leases})
    return truth.holding(found, truth.entries_now(tools.pool, recipe, truth.accepted(recipe, found)))


def handle(lease: Lease, tools: Tools) -> outcomes.Outcome:
    recipe = recipe_of_job(tools.job)
    tried = tries_of([lease], tools.job, recipe)[0]
    if UNREADABLE in lease.input:
        return unreadable(recipe, tried)
    told = tried.envelope
    with (
        context.about(item_key=told.item_key),
        spans.span("item", own=told.trace_parent, item_id=told.item_id, attempt=told.attempt),
    ):
        return looked_up(recipe, tried, tools)


def looked_up(recipe: Recipe, tried: Try, tools: Tools) -> outcomes.Outcome:
    assert isinstance(tools.prepared, Prepared), "each claim is prepared"
    decision = tools.prepared.decisions.get(tried.item_id, Decision())
    try:
        looked = None if decision.decides else look(recipe, tried, tools)
    except Stopped:
        return Unfinished()
    found = None if looked is None else looked.finding
    finding, result = truth.result_of(recipe, tried.row, found, decision, tried.envelope.as_json())
    if events.told(logging.DEBUG):
        evidence = {name: result["evidence"].get(name) for name in ("variant", "provider", "score", "reason")}
        events.debug("item looked up", outcome=result["outcome"], **evidence, envelope=result["envelope"])
    return Done(result) if looked is None else results.settled(finding, result, looked.error)


def look(recipe: Recipe, tried: Try, tools: Tools) -> Looked:
    kind = types.find(recipe.type)
    if kind.look is None:
        assert isinstance(tools.prepared, Prepared), "each claim is prepared"
        found = tools.prepared.looked.get(tried.item_id)
        if found is None:
            raise Stopped
        return found
    try:
        return kind.look(recipe, tried, desk(tools, declared()))
    except (Failure, InvalidInput) as error:
        return Looked(results.failed(error), error)


def unreadable(recipe: Recipe, tried: Try) -> Bury:
    reason = f"the record cannot be read: {tried.row[UNREADABLE]}"
    finding = results.Finding(results.Outcome.FAILED, reason=reason)
    return Bury(reason, result=results.as_result(recipe, tried.row, finding, tried.envelope.as_json()))
