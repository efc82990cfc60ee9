"""The steps of a run: what they are called, and which of them a run has."""

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature

import dagster as dg

from bulk_pipelines.engine.jobs.jobs import Job

LANE = "lane_"
FAILED = "failed"
"""The output of a plan whose job has failed."""


def with_parameters(composed: Callable[..., object], names: Sequence[str]) -> Callable[..., object]:
    """Give the function a signature with these names, because Dagster reads a graph's inputs from it."""
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    composed.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return composed


def lane_name(number: int) -> str:
    return f"{LANE}{number}"


def has_no_lanes(run: dg.DagsterRun) -> bool:
    """Whether the run is executed again from where it failed, and has no lanes because its last step failed. Then one
    process would work all that is left."""
    steps = run.step_keys_to_execute
    return steps is not None and not any(step.rpartition(".")[2].startswith(LANE) for step in steps)


def what_lacks(run: dg.DagsterRun, job: Job, wanted: int) -> str | None:
    """Say which steps the job needs that the run does not have, because it was executed again from where it failed."""
    if job.planned_at is None:
        return "it is to be planned, and this run does not plan"
    if wanted > 1 and has_no_lanes(run):
        return "it is work for several lanes, and this run has none"
    return None
