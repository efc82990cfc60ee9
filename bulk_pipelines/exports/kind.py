"""The engine's kinds of the exports: one for each resource."""

from dataclasses import replace

from bulk_pipelines import resources
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.limits import Limits, by_default
from bulk_pipelines.exports import completion, work
from bulk_pipelines.exports.request import kind_name

LONGEST = 7 * 86_400.0
"""Seconds that one file may take. A large table over a slow line takes days."""


def kinds_of(limits: Limits) -> Kinds:
    """Make the kinds with these limits. An export has one item."""
    return Kinds(
        Kind(
            name,
            work.handle,
            finish=completion.finish,
            retry=limits.retry,
            slices=replace(limits.slices, min_claim=1, max_claim=1, first_claim=1),
            settling=limits.settling,
            item_timeout=LONGEST,
        )
        for name in kind_names()
    )


def kind_names() -> tuple[str, ...]:
    return tuple(kind_name(resource.name) for resource in resources.worked())


known_kinds = by_default(kind_names, kinds_of)

KINDS = known_kinds()
"""The kinds that were known when this process began."""
