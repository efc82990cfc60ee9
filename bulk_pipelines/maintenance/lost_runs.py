"""Decisions about silent jobs and stray runs; `sweep` acts on them. A silent job should be at work, and the question is
whether a run is behind it. A stray run says that it is at work, and has no job to be at work on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bulk_pipelines.engine.jobs.dispatch import SILENT_SECONDS, Launched


class RunState(StrEnum):
    WAITING = "waiting"
    WORKING = "working"
    ENDED = "ended"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class RunSeen:
    """A run of a job, as Dagster shows it."""

    run_id: str
    state: RunState
    seconds_since_end: float = 0.0
    retry_expected: bool | None = None
    """Whether Dagster has announced that it will start the run again by itself. None: it has not said yet."""
    last_words: str = ""
    """Why the run failed, as far as that is known."""
    cancels: bool = False
    """Whether a person who terminates the run wants its job to be cancelled, and not paused."""


@dataclass(frozen=True)
class Unended:
    """A run of which Dagster says that it is at work."""

    run_id: str
    job_key: str | None
    """The job that the run works. None: the run works no job, and does something that is over in minutes."""
    seconds: float
    """How many seconds ago the run began."""


class Action(StrEnum):
    """What to do about a silent job."""

    LEAVE = "leave"
    END_RUN = "end the run that nobody is behind"
    WANT_RUN = "launch it again"
    PAUSE = "pause it: its run was terminated"
    CANCEL = "cancel it: its run was terminated"
    FAIL = "fail it: its runs keep dying"


@dataclass(frozen=True)
class LossLimits:
    """How long a silent job or a stray run is waited for; times are in seconds."""

    silence: float = SILENT_SECONDS
    """How long a job that should be at work may give no sign of life before it is looked into."""
    launches: int = 5
    """How many launches in a row may come to nothing before a job is given up."""
    retry_patience: float = 600.0
    """How long an automatic retry that was announced may take to come."""
    unsaid_patience: float = 30.0
    """How long after a run's end Dagster may take to say whether it tries the run again."""
    ending_patience: float = 3_600.0
    """How long after its job came to rest a run may take to end; for one thing, it counts again what was exported."""
    brief_patience: float = 6 * 3_600.0
    """How long a run that works no job may take."""


def decide(job: Launched, runs: Sequence[RunSeen], limits: LossLimits) -> Action:
    """Decide what to do about a silent job. `runs` are its runs, the newest first. The job has been silent for
    `limits.silence` at least."""
    if any(run.state is RunState.WAITING for run in runs):
        return Action.LEAVE
    if any(run.state is RunState.WORKING for run in runs):
        return Action.END_RUN
    if not runs:
        # The job was offered and never launched: the relay offers it again by itself, under the same key.
        return Action.LEAVE if job.run_wanted else Action.WANT_RUN
    return decide_ended(job, runs[0], limits)


def decide_ended(job: Launched, last: RunSeen, limits: LossLimits) -> Action:
    """Decide what to do about a silent job whose last run is over."""
    if last.state is RunState.CANCELLED:
        return Action.CANCEL if last.cancels else Action.PAUSE
    if last.state is RunState.FAILED and retry_may_come(last, limits):
        return Action.LEAVE
    if last.state is RunState.FAILED and job.vain_launches + 1 >= limits.launches:
        return Action.FAIL
    return Action.WANT_RUN


def retry_may_come(last: RunSeen, limits: LossLimits) -> bool:
    """Whether Dagster may still start the run again by itself. If the job were launched besides that, it would have two
    runs."""
    if last.retry_expected is None:
        return last.seconds_since_end < limits.unsaid_patience
    return last.retry_expected and last.seconds_since_end < limits.retry_patience


def is_stray(run: Unended, at_rest: Mapping[str, float], limits: LossLimits) -> bool:
    """Whether nobody is behind the run any more. Such a run would keep a place among the runs for ever. `at_rest` says
    of each job that is not to be at work for how many seconds that has been so; runs of the other jobs are left to
    `decide`."""
    if run.job_key is None:
        return run.seconds > limits.brief_patience
    # The time since the run began counts, too: a person may look again into a job that has been over for long.
    return min(run.seconds, at_rest.get(run.job_key, 0.0)) > limits.ending_patience
