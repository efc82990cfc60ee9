"""Jobs that should be at work and are silent: is there a run behind them? Decisions only; `sweep` acts on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bulk_pipelines.engine.dispatch import Launched


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
