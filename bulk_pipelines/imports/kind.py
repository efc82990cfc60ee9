"""The kinds of job that imports are to the engine: one for each resource."""

from dataclasses import replace
from functools import lru_cache

from bulk_pipelines import resources
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.limits import Limits, limits_of
from bulk_pipelines.imports import completion, work
from bulk_pipelines.imports.request import kind_name
from bulk_pipelines.settings.engine import EngineSettings


def kinds_of(limits: Limits) -> Kinds:
    """Make the kinds with these limits. Loading a range takes long, so a worker claims one item at a time, for twice as
    long as it would others; every batch renews the item's lease."""
    slices = limits.slices
    one_by_one = replace(slices, min_claim=1, max_claim=1, first_claim=1, lease_floor=2 * slices.lease_floor)
    loader = work.Loader(limits.load)
    return Kinds(
        Kind(
            name,
            loader.handle,
            reconcile=completion.reconcile,
            finish=completion.finish,
            retry=limits.retry,
            slices=one_by_one,
            settling=limits.settling,
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
