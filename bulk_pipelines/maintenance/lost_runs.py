"""Jobs that should be at work and are silent: is there a run behind them? And runs that say they are at work, and have
no job to be at work on. Decisions only; `sweep` acts on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bulk_pipelines.engine.jobs.dispatch import Launched


class RunState(StrEnum):
    WAITING = "waiting"
    WORKING = "working"
    ENDED = "ended"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class RunSeen:
    """A run of a job, as the orchestrator has it."""

    run_id: str
    state: RunState
    seconds_since_end: float = 0.0
    retry_expected: bool | None = None
    """Whether Dagster has announced that it starts the run again by itself; None: it has not said yet."""
    last_words: str = ""
    """Why it failed, as far as that is known."""


@dataclass(frozen=True)
class Unended:
    """A run that says it is at work."""

    run_id: str
    job_key: str | None
    """None: it works no job; it does something that is over in minutes."""
    seconds: float
    """Since it began."""


class Action(StrEnum):
    LEAVE = "leave"
    END_RUN = "end the run that nobody is behind"
    WANT_RUN = "launch it again"
    PAUSE = "pause it: its run was cancelled"
    FAIL = "fail it: its runs keep dying"


@dataclass(frozen=True)
class LossLimits:
    launches: int = 5
    """How many launches in a row may come to nothing before a job is given up."""
    retry_patience: float = 600.0
    """How long an automatic retry that was announced may take to come."""
    unsaid_patience: float = 30.0
    """How long after its end it may not yet have been said whether a run is tried again."""
    ending_patience: float = 3_600.0
    """How long after its job came to rest a run may take to end: it counts again what was exported, for one."""
    brief_patience: float = 6 * 3_600.0
    """How long a run may take that works no job."""


def decide(job: Launched, runs: Sequence[RunSeen], limits: LossLimits) -> Action:
    """`runs` are those of the job, the newest first. The job has been silent for dispatch.SILENT_SECONDS at least."""
    if any(run.state is RunState.WAITING for run in runs):
        return Action.LEAVE
    if any(run.state is RunState.WORKING for run in runs):
        return Action.END_RUN
    if not runs:
        # Offered and never launched: the relay offers it again by itself, under the same key.
        return Action.LEAVE if job.run_wanted else Action.WANT_RUN
    return decide_ended(job, runs[0], limits)


def decide_ended(job: Launched, last: RunSeen, limits: LossLimits) -> Action:
    """The last run is over, and the job is not."""
    if last.state is RunState.CANCELLED:
        return Action.PAUSE
    if last.state is RunState.FAILED and retry_may_come(last, limits):
        return Action.LEAVE
    if last.state is RunState.FAILED and job.vain_launches + 1 >= limits.launches:
        return Action.FAIL
    return Action.WANT_RUN


def retry_may_come(last: RunSeen, limits: LossLimits) -> bool:
    """Launched besides it, the job would have two runs."""
    if last.retry_expected is None:
        return last.seconds_since_end < limits.unsaid_patience
    return last.retry_expected and last.seconds_since_end < limits.retry_patience


def is_stray(run: Unended, at_rest: Mapping[str, float], limits: LossLimits) -> bool:
    """Whether nobody is behind the run any more; those of jobs that should be at work are for `decide`. `at_rest`: the
    other jobs, and for how many seconds. A stray one would keep a place among the runs for ever."""
    if run.job_key is None:
        return run.seconds > limits.brief_patience
    # Also since the run began: a person may look into a job again that has been over for long.
    return min(run.seconds, at_rest.get(run.job_key, 0.0)) > limits.ending_patience
