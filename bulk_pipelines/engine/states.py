"""The lives of jobs and items, each as one table of allowed moves. Every write of a status goes by these tables."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar


class JobState(StrEnum):
    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class JobEvent(StrEnum):
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    COMPLETE = "complete"
    COMPLETE_WITH_ERRORS = "complete with errors"
    FAIL = "fail"
    CANCEL = "cancel"
    REDRIVE = "redrive"


class ItemState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    NOT_FOUND = "NOT_FOUND"
    SKIPPED = "SKIPPED"
    RETRY_WAIT = "RETRY_WAIT"
    DLQ = "DLQ"
    CANCELLED = "CANCELLED"


class ItemEvent(StrEnum):
    CLAIM = "claim"
    SUCCEED = "succeed"
    MISS = "miss"
    SKIP = "skip"
    RETRY = "retry"
    BURY = "bury"
    GIVE_BACK = "give back"
    CANCEL = "cancel"
    REDRIVE = "redrive"
    DISCARD = "discard"


JOB_MOVES: Mapping[tuple[JobState, JobEvent], JobState] = {
    (JobState.SUBMITTED, JobEvent.START): JobState.RUNNING,
    # A run that is started again (after a crash, by hand) goes on with the same job.
    (JobState.RUNNING, JobEvent.START): JobState.RUNNING,
    (JobState.SUBMITTED, JobEvent.PAUSE): JobState.PAUSED,
    (JobState.RUNNING, JobEvent.PAUSE): JobState.PAUSED,
    (JobState.PAUSED, JobEvent.RESUME): JobState.RUNNING,
    (JobState.RUNNING, JobEvent.COMPLETE): JobState.COMPLETED,
    (JobState.RUNNING, JobEvent.COMPLETE_WITH_ERRORS): JobState.COMPLETED_WITH_ERRORS,
    (JobState.SUBMITTED, JobEvent.FAIL): JobState.FAILED,
    (JobState.RUNNING, JobEvent.FAIL): JobState.FAILED,
    (JobState.PAUSED, JobEvent.FAIL): JobState.FAILED,
    (JobState.SUBMITTED, JobEvent.CANCEL): JobState.CANCELLED,
    (JobState.RUNNING, JobEvent.CANCEL): JobState.CANCELLED,
    (JobState.PAUSED, JobEvent.CANCEL): JobState.CANCELLED,
    (JobState.COMPLETED, JobEvent.REDRIVE): JobState.RUNNING,
    (JobState.COMPLETED_WITH_ERRORS, JobEvent.REDRIVE): JobState.RUNNING,
    (JobState.FAILED, JobEvent.REDRIVE): JobState.RUNNING,
}

ITEM_MOVES: Mapping[tuple[ItemState, ItemEvent], ItemState] = {
    (ItemState.PENDING, ItemEvent.CLAIM): ItemState.RUNNING,
    (ItemState.RETRY_WAIT, ItemEvent.CLAIM): ItemState.RUNNING,
    (ItemState.RUNNING, ItemEvent.SUCCEED): ItemState.SUCCEEDED,
    (ItemState.RUNNING, ItemEvent.MISS): ItemState.NOT_FOUND,
    (ItemState.RUNNING, ItemEvent.SKIP): ItemState.SKIPPED,
    (ItemState.RUNNING, ItemEvent.RETRY): ItemState.RETRY_WAIT,
    (ItemState.RUNNING, ItemEvent.BURY): ItemState.DLQ,
    (ItemState.RUNNING, ItemEvent.GIVE_BACK): ItemState.PENDING,
    # A person leaves out what nobody is to work any more.
    (ItemState.PENDING, ItemEvent.SKIP): ItemState.SKIPPED,
    (ItemState.RETRY_WAIT, ItemEvent.SKIP): ItemState.SKIPPED,
    (ItemState.PENDING, ItemEvent.CANCEL): ItemState.CANCELLED,
    (ItemState.RETRY_WAIT, ItemEvent.CANCEL): ItemState.CANCELLED,
    (ItemState.DLQ, ItemEvent.REDRIVE): ItemState.PENDING,
    (ItemState.NOT_FOUND, ItemEvent.REDRIVE): ItemState.PENDING,
    (ItemState.DLQ, ItemEvent.DISCARD): ItemState.CANCELLED,
}

OPEN_ITEMS = (ItemState.PENDING, ItemState.RUNNING, ItemState.RETRY_WAIT)
FINISHED_JOBS = (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS, JobState.FAILED, JobState.CANCELLED)

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class IllegalMove(Exception):
    """The table of moves has no such move: this is an error in the code, and not of a user."""


def after(moves: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """Return the state that follows when this event happens in this state. Raises IllegalMove."""
    try:
        return moves[state, event]
    except KeyError:
        raise IllegalMove(f"{state} does not take the event {event!r}") from None


def sources(moves: Mapping[tuple[S, E], S], event: E) -> list[S]:
    """Return the states in which an event may happen, for a statement to name in its WHERE."""
    return [state for state, taken in moves if taken == event]


def target(moves: Mapping[tuple[S, E], S], event: E) -> S:
    """Return the state to which an event leads; every event leads to one state, wherever it happens."""
    (state,) = {moves[move] for move in moves if move[1] == event}
    return state


def diagram(moves: Mapping[tuple[S, E], S]) -> str:
    """Return the moves as a Mermaid state diagram."""
    lines = [f"    {state} --> {to}: {event}" for (state, event), to in moves.items()]
    return "\n".join(["stateDiagram-v2", *lines])
