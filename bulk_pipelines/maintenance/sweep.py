"""The sweeper: it deals with expired leases, ends of jobs that were not written, and launches and runs that were
lost."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.items.rescue import Rescued
from bulk_pipelines.engine.jobs import dispatch, end, jobs
from bulk_pipelines.engine.jobs import runs as job_runs
from bulk_pipelines.engine.jobs.dispatch import Launched
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.states import JobEvent, JobState
from bulk_pipelines.engine.worker.retry import Random
from bulk_pipelines.maintenance import lost_runs
from bulk_pipelines.maintenance.lost_runs import Action, LossLimits, RunSeen, RunState, Unended

RunsOf = Callable[[Launched], Sequence[RunSeen]]
EndRun = Callable[[str, str], None]
"""Ends a run; it is called with the run's id and the reason."""
EVENTS = {Action.PAUSE: JobEvent.PAUSE, Action.CANCEL: JobEvent.CANCEL}


@dataclass(frozen=True)
class Swept:
    """What a pass of the sweeper did."""

    rescued: Rescued
    ended_jobs: int
    lost: Mapping[Action, int] = field(default_factory=dict)


def run_once(
    pool: Engine,
    kinds: Mapping[str, Kind],
    random: Random,
    runs_of: RunsOf,
    unended: Sequence[Unended],
    end_run: EndRun,
    limits: LossLimits,
) -> Swept:
    """Make one pass over leases, jobs and runs."""
    rescue.name_unnamed(pool)
    rescued = rescue.run_once(pool, kinds, random)
    ended = end.run_once(pool, kinds)
    with transaction(pool) as connection:
        silent = dispatch.silent(connection, limits.silence)
    lost = Counter(look_after(pool, job, runs_of(job), end_run, limits) for job in silent)
    del lost[Action.LEAVE]
    lost[Action.END_RUN] += end_strays(pool, unended, end_run, limits)
    return Swept(rescued, len(ended), lost)


def is_due(pool: Engine, runs_of: RunsOf, unended: Sequence[Unended], limits: LossLimits) -> bool:
    """Whether a pass would find something to do. It decides what the pass decides, and does nothing about it."""
    with transaction(pool) as connection:
        if rescue.is_anything_due(connection) or end.is_anything_due(connection):
            return True
        silent = dispatch.silent(connection, limits.silence)
    if any(lost_runs.decide(job, runs_of(job), limits) is not Action.LEAVE for job in silent):
        return True
    return bool(strays(pool, unended, limits))


def look_after(pool: Engine, job: Launched, runs: Sequence[RunSeen], end_run: EndRun, limits: LossLimits) -> Action:
    """Decide what to do about one silent job, do it, and return what was done."""
    action = lost_runs.decide(job, runs, limits)
    if action is Action.END_RUN:
        for run in runs:
            if run.state is RunState.WORKING:
                end_run(run.run_id, f"nobody is behind this run any more: job {job.job_key} has been silent")
        return action
    with transaction(pool) as connection:
        if jobs.lock(connection, job.job_key).status is not JobState(job.status):
            return Action.LEAVE  # the job has moved on since it was looked at
        match action:
            case Action.WANT_RUN:
                dispatch.want(connection, job.job_id, in_vain=True)
            case Action.PAUSE | Action.CANCEL:
                if not job_runs.terminate(connection, job.job_key, runs[0].run_id, EVENTS[action]):
                    # The job has been stopped for this run before, and somebody wants it to go on.
                    dispatch.want(connection, job.job_id, in_vain=True)
                    return Action.WANT_RUN
            case Action.FAIL:
                jobs.fail(connection, job.job_key, why_given_up(job, runs))
    if action is Action.CANCEL:
        jobs.cancel_waiting(pool, job.job_id)
    return action


def end_strays(pool: Engine, runs: Sequence[Unended], end_run: EndRun, limits: LossLimits) -> int:
    """End the runs that nobody is behind any more, and return how many."""
    stray = strays(pool, runs, limits)
    for run in stray:
        why = f"its job {run.job_key} is not at work" if run.job_key else "it should have been over long ago"
        end_run(run.run_id, f"nobody is behind this run any more: {why}")
    return len(stray)


def strays(pool: Engine, runs: Sequence[Unended], limits: LossLimits) -> list[Unended]:
    values = {"job_keys": [run.job_key for run in runs if run.job_key is not None]}
    with transaction(pool) as connection:
        rows = connection.execute(queries.text("lost_runs", "jobs_at_rest"), values).fetchall()
    at_rest = {key: math.inf if seconds is None else seconds for key, seconds in rows}
    return [run for run in runs if lost_runs.is_stray(run, at_rest, limits)]


def why_given_up(job: Launched, runs: Sequence[RunSeen]) -> str:
    last = f"run {runs[0].run_id}" + (f": {runs[0].last_words}" if runs[0].last_words else "")
    return f"its runs keep dying: {job.vain_launches + 1} launches were in vain, the last one was {last}"
