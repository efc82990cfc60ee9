"""The kinds of job that imports are to the engine: one for each resource."""

from dataclasses import replace

from bulk_pipelines import resources
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.limits import Limits, by_default
from bulk_pipelines.imports import completion, work
from bulk_pipelines.imports.request import kind_name


def kinds_of(limits: Limits) -> Kinds:
    """Make the kinds with these limits. Loading a range takes long, so a worker claims one item at a time (and
    the next one early, to read it ahead), for twice as long as it would others; every batch renews the item's lease."""
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


known_kinds = by_default(kind_names, kinds_of)

KINDS = known_kinds()
"""The kinds that were known when this process began."""
