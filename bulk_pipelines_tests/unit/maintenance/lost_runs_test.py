"""What is done about a job that is silent, by what has become of its runs."""

from dataclasses import replace

import pytest

from bulk_pipelines.engine.jobs.dispatch import Launched
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.maintenance.lost_runs import Action, LossLimits, RunSeen, RunState, Unended, decide, is_stray

LIMITS = LossLimits(launches=3, retry_patience=600)


def launched(*, run_wanted: bool = False, vain_launches: int = 0) -> Launched:
    return Launched(1, "J20260101_000001", "echo", JobState.RUNNING, None, run_wanted, vain_launches)


WAITING = RunSeen("q", RunState.WAITING)
WORKING = RunSeen("w", RunState.WORKING)
ENDED = RunSeen("e", RunState.ENDED, 300)
FAILED = RunSeen("f", RunState.FAILED, 300)
RETRYING = RunSeen("r", RunState.FAILED, 300, retry_expected=True)
ABANDONED = RunSeen("a", RunState.FAILED, 3_000, retry_expected=True)
JUST_FAILED = RunSeen("j", RunState.FAILED, 5)
JUST_FAILED_FOR_GOOD = RunSeen("g", RunState.FAILED, 5, retry_expected=False)
CANCELLED = RunSeen("c", RunState.CANCELLED, 300)


@pytest.mark.parametrize(
    ("runs", "action"),
    [
        ([], Action.WANT_RUN),
        ([WAITING, FAILED], Action.LEAVE),
        ([WORKING], Action.END_RUN),
        ([FAILED, WORKING], Action.END_RUN),
        ([ENDED], Action.WANT_RUN),
        ([FAILED], Action.WANT_RUN),
        ([RETRYING], Action.LEAVE),
        ([JUST_FAILED], Action.LEAVE),
        ([JUST_FAILED_FOR_GOOD], Action.WANT_RUN),
        ([ABANDONED], Action.WANT_RUN),
        ([CANCELLED, FAILED], Action.PAUSE),
        ([replace(CANCELLED, cancels=True)], Action.CANCEL),
        ([FAILED, CANCELLED], Action.WANT_RUN),
    ],
)
def test_by_its_runs(runs: list[RunSeen], action: Action) -> None:
    assert decide(launched(), runs, LIMITS) is action


def test_a_launch_that_never_became_a_run_is_left_to_the_relay() -> None:
    assert decide(launched(run_wanted=True), [], LIMITS) is Action.LEAVE


def test_a_job_whose_runs_keep_dying_is_failed_in_the_end() -> None:
    assert decide(launched(vain_launches=1), [FAILED], LIMITS) is Action.WANT_RUN
    assert decide(launched(vain_launches=2), [FAILED], LIMITS) is Action.FAIL
    assert decide(launched(vain_launches=2), [ENDED], LIMITS) is Action.WANT_RUN


@pytest.mark.parametrize(
    ("job_key", "seconds", "stray"),
    [
        ("at work", 1_000_000, False),
        ("just over", 1_000_000, False),
        ("long over", 10, False),
        ("long over", 4_000, True),
        (None, 3_600, False),
        (None, 8 * 3_600, True),
    ],
)
def test_a_run_without_a_job_to_be_at_work_on(job_key: str | None, seconds: float, stray: bool) -> None:
    at_rest = {"just over": 60.0, "long over": 4_000.0}
    assert is_stray(Unended("run", job_key, seconds), at_rest, LIMITS) is stray
