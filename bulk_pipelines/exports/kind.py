"""The engine's kinds of the exports: one for each resource."""

from bulk_pipelines import resources
from bulk_pipelines.engine.kinds import Kind, Kinds
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.exports import completion, work
from bulk_pipelines.exports.request import kind_name

LONGEST = 7 * 86_400.0
"""Seconds that one file may take. A large table over a slow line takes days."""

KINDS = Kinds(
    Kind(
        kind_name(resource.name),
        work.handle,
        finish=completion.finish,
        slices=SliceLimits(max_claim=1, first_claim=1),
        item_timeout=LONGEST,
    )
    for resource in resources.RESOURCES
)
