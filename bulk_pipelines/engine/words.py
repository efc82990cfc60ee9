"""The states of jobs and items in the few words that programs of the outside know: the status of a job, its queue
state, and the status of an item. Several of our states are one word there."""

from collections.abc import Iterable, Mapping

from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.errors import InvalidInput

WORDS = {
    JobState.SUBMITTED: "pending",
    JobState.RUNNING: "processing",
    JobState.PAUSED: "processing",
    JobState.COMPLETED: "completed",
    JobState.COMPLETED_WITH_ERRORS: "completed_with_errors",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
"""The status of a job in the words of the outside. A paused job is processing, and says that it is paused."""

JOB_WORDS: Mapping[JobState, str] = {
    JobState.SUBMITTED: "QUEUED",
    JobState.RUNNING: "RUNNING",
    JobState.PAUSED: "PAUSED",
    JobState.COMPLETED: "DONE",
    JobState.COMPLETED_WITH_ERRORS: "DONE",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "FAILED",
}

ITEM_WORDS: Mapping[ItemState, str] = {
    ItemState.PENDING: "PENDING",
    ItemState.RETRY_WAIT: "PENDING",
    ItemState.RUNNING: "PROCESSING",
    ItemState.SUCCEEDED: "DONE",
    ItemState.DLQ: "ERROR",
    ItemState.NOT_FOUND: "NOT_FOUND",
    ItemState.SKIPPED: "SKIPPED",
    ItemState.CANCELLED: "SKIPPED",
}


def job_states(words: Iterable[str]) -> list[JobState]:
    """Return the states of jobs that some words mean; all of them without a word."""
    wanted = known(words, JOB_WORDS.values(), "status")
    return [state for state, word in JOB_WORDS.items() if not wanted or word in wanted]


def item_states(words: Iterable[str]) -> list[ItemState]:
    """Return the states of items that some words mean; all of them without a word."""
    wanted = known(words, ITEM_WORDS.values(), "statuses")
    return [state for state, word in ITEM_WORDS.items() if not wanted or word in wanted]


def known(words: Iterable[str], all_words: Iterable[str], field: str) -> set[str]:
    there = list(dict.fromkeys(all_words))
    wanted = {word.upper() for word in words}
    unknown = wanted - set(there)
    if unknown:
        raise InvalidInput(field, f"{min(unknown)[:100]!r} is none of {', '.join(there)}")
    return wanted


def states_of(words: Iterable[str] | None) -> list[JobState] | None:
    """Return the states that some statuses of jobs mean; None without a status."""
    wanted = list(words or ())
    if not wanted:
        return None
    unknown = set(wanted) - set(WORDS.values())
    if unknown:
        raise InvalidInput("status", f"{min(unknown)!r} is none of {', '.join(dict.fromkeys(WORDS.values()))}")
    return [state for state, word in WORDS.items() if word in wanted]
