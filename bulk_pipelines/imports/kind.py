"""The kinds of job that imports are to the engine: one for each resource."""

from bulk_pipelines import resources
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.worker.retry import RetryPolicy
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.imports import completion, work
from bulk_pipelines.imports.request import kind_name

# Loading a range takes long, so a worker claims one item at a time, and every batch renews the item's lease.
ONE_BY_ONE = SliceLimits(max_claim=1, first_claim=1, lease_floor=60.0)


KINDS = Kinds(
    Kind(
        kind_name(resource.name),
        work.handle,
        reconcile=completion.reconcile,
        finish=completion.finish,
        retry=RetryPolicy(),
        slices=ONE_BY_ONE,
    )
    for resource in resources.RESOURCES
)
