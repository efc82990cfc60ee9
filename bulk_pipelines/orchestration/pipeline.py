"""A kind of job as a partitioned asset: one partition is one job. A slice says here how its jobs are planned and shown;
`steps` makes the steps of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg
from sqlalchemy import Engine

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.orchestration.runs import partitions_name

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

Metadata = Mapping[str, dg.MetadataValue | str | int | float]


@dataclass(frozen=True)
class Pipeline:
    """What a slice adds to the steps: how its jobs are planned, and what people are shown of them."""

    kind: Kind
    plan: Callable[[Engine, Job], Job]
    """Adds the items, seals the job, and returns it as it is then. It runs again after a crash, so it must come to the
    same items each time."""
    report: Callable[[Engine, Job], Metadata]
    """Returns what the materialization shows of a job that ended."""
    small: Callable[[Job], bool] = lambda _: False
    """Whether a job is too small to be worth a process of its own for each step."""
    wind_up: Callable[[Engine, str], None] = lambda _, __: None
    """Called by `finish` with the key of a job that was cancelled or failed, when nobody works it any more."""
    items_per_lane: int = 1
    """How many items make another lane worthwhile."""
    resources: frozenset[str] = frozenset()
    """The names of Dagster's resources, besides the database, that the kind needs in a step."""
    equip: Callable[[Any], Kind] | None = None
    """Returns the kind with those resources. Without it, `kind` is complete."""

    def kind_of(self, context: dg.OpExecutionContext) -> Kind:
        return self.kind if self.equip is None else self.equip(context.resources)

    @property
    def resource_keys(self) -> set[str]:
        return {"database", *self.resources}

    def lanes_for(self, job: Job, most: int) -> int:
        """Return how many lanes the open items are worth. It is one at least, because a lane ends a job without items,
        too."""
        return max(1, min(most, -(-job.open_items // self.items_per_lane)))

    def run_config(self, job: Job) -> dict[str, Any]:
        return {"execution": {"config": {"in_process": self.small(job)}}}


@dataclass(frozen=True)
class Launchable:
    """A pipeline, and the Dagster job that runs it; the Dagster job has the name of the kind."""

    pipeline: Pipeline
    job: "UnresolvedAssetJobDefinition"


def launchable(pipeline: Pipeline, asset: str, description: str) -> Launchable:
    """Return the pipeline with a Dagster job that works a partition of the asset."""
    selection = dg.AssetSelection.assets(asset)
    return Launchable(pipeline, dg.define_asset_job(pipeline.kind.name, selection, description=description))


def partitions(kind: str) -> dg.DynamicPartitionsDefinition:
    """Return the partitions of a kind's asset, which are the keys of its jobs."""
    return dg.DynamicPartitionsDefinition(name=partitions_name(kind))


def behind(assets: Sequence[str]) -> dict[str, dg.AssetIn]:
    """Return the `ins` of an asset that stands behind others and gets no data of them. Their names are not those of the
    assets: a table may be called as a parameter cannot be."""
    every = dg.AllPartitionMapping()
    return {f"behind_{name}": dg.AssetIn(name, dagster_type=dg.Nothing, partition_mapping=every) for name in assets}
