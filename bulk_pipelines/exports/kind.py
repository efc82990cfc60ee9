"""The engine's kinds of the exports: one for each resource."""

from dataclasses import replace
from functools import lru_cache

from bulk_pipelines import resources
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.limits import Limits, limits_of
from bulk_pipelines.exports import completion, work
from bulk_pipelines.exports.request import kind_name
from bulk_pipelines.settings.engine import EngineSettings

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


def known_kinds() -> Kinds:
    """Return the kinds with the limits by default. Whoever submits needs no more than their names. Resources that were
    adopted since the last call have theirs too."""
    return default_kinds(kind_names())


@lru_cache(maxsize=4)
def default_kinds(_names: tuple[str, ...]) -> Kinds:
    return kinds_of(limits_of(EngineSettings()))


KINDS = known_kinds()
"""The kinds that were known when this process began."""
