"""The words that the outside has for the states of jobs."""

from collections.abc import Sequence

from bulk_pipelines.engine.states import JobState
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


def states_of(words: Sequence[str] | None) -> list[JobState] | None:
    """Return the states that these words name; None if no word is given."""
    if not words:
        return None
    unknown = set(words) - set(WORDS.values())
    if unknown:
        raise InvalidInput("status", f"{min(unknown)!r} is none of {', '.join(dict.fromkeys(WORDS.values()))}")
    return [state for state, word in WORDS.items() if word in words]
