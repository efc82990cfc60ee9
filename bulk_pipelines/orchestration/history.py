"""Retention of what Dagster keeps: partition keys, runs with their events, and ticks of sensors and schedules."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from bulk_pipelines.orchestration.pipeline import partitions

if TYPE_CHECKING:
    from dagster._core.scheduler.instigation import InstigatorState

RUNS_AT_A_TIME = 100
KEYS_AT_A_TIME = 1_000
TICKS_AT_A_TIME = 1_000

OVER = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def prune_keys(
    instance: dg.DagsterInstance,
    kinds: Iterable[str],
    finished: Callable[[list[str]], set[str]],
    keep: int,
    dry_run: bool,
) -> int:
    """Remove the oldest keys beyond the number that an asset keeps. `finished` returns those of some keys whose jobs
    are over; only these are removed, and the database keeps the jobs."""
    total = 0
    for kind in kinds:
        name = partitions(kind).name
        assert name is not None
        keys = sorted(instance.get_dynamic_partitions(name))
        old = keys[: max(0, len(keys) - keep)]
        for start in range(0, len(old), KEYS_AT_A_TIME):
            gone = finished(old[start : start + KEYS_AT_A_TIME])
            for key in () if dry_run else sorted(gone):
                instance.delete_dynamic_partition(name, key)
            total += len(gone)
    return total


def prune_runs(instance: dg.DagsterInstance, days: int, dry_run: bool) -> int:
    """Remove old runs with all their events and what their steps printed. Each run is a deletion of its own, so a pass
    can be cut short anywhere."""
    filters = dg.RunsFilter(statuses=OVER, updated_before=ago(days))
    if dry_run:
        return instance.get_runs_count(filters)
    removed = 0
    while records := instance.get_run_records(filters, limit=RUNS_AT_A_TIME, ascending=True):
        for record in records:
            run_id = record.dagster_run.run_id
            instance.compute_log_manager.delete_logs(prefix=[run_id])  # deleting the run leaves its logs behind
            instance.delete_run(run_id)
        removed += len(records)
    return removed


def prune_ticks(instance: dg.DagsterInstance, days: int, dry_run: bool) -> int:
    """Remove old ticks, the oldest first and a bounded number at a time. Dagster removes ticks by itself, as its
    configuration says, but only with the next tick of the same sensor: ticks of a sensor that was removed or turned off
    stay."""
    total = 0
    for state in instance.all_instigator_state():
        borders = []
        for border, count in pages_of_ticks(instance, state, ago(days).timestamp()):
            borders.append(border)
            total += count
        for border in () if dry_run else reversed(borders):
            instance.purge_ticks(state.instigator_origin_id, state.selector_id, border)
    return total


def pages_of_ticks(
    instance: dg.DagsterInstance, state: "InstigatorState", before: float
) -> Iterator[tuple[float, int]]:
    """Yield borders in time, the newest first, each with the number of ticks from there back to the next border."""
    while ticks := instance.get_ticks(
        state.instigator_origin_id, state.selector_id, before=before, limit=TICKS_AT_A_TIME
    ):
        yield before, len(ticks)
        before = ticks[-1].timestamp


def ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)
