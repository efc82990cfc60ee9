"""Errors of the engine.

BulkError
  NotFound
    UnknownJob           no job has this key
  Conflict
    IdempotencyConflict  the key was used before, for another request
    WrongState           the job's state does not allow what was asked
LeaseLost                somebody else holds the item now; drop the work
HandlerError             what a handler raises to say how its failure is to be taken
  Transient              may pass: retried
    Throttled            the other side asks for less: retried, and everyone slows down
  Permanent              will not pass: buried
"""

from enum import StrEnum

from bulk_pipelines import errors


class UnknownJob(errors.NotFound):
    def __init__(self, job_key: str) -> None:
        super().__init__(f"no job has the key {job_key!r}")


class IdempotencyConflict(errors.Conflict):
    def __init__(self, idempotency_key: str, job_key: str) -> None:
        super().__init__(
            f"idempotency key {idempotency_key!r} was used for another request, job {job_key}: use a new key"
        )
        self.job_key = job_key


class WrongState(errors.Conflict):
    def __init__(self, job_key: str, state: str, event: str) -> None:
        super().__init__(f"job {job_key} is {state}: it cannot {event}")


class LeaseLost(Exception):
    """The item was taken from this worker: whatever it did must not be written."""

    def __init__(self, item_id: int, lease_term: int) -> None:
        super().__init__(f"the lease {lease_term} of item {item_id} is lost")


class ErrorClass(StrEnum):
    TRANSIENT = "transient"
    THROTTLED = "throttled"
    UNKNOWN = "unknown"
    PERMANENT = "permanent"
    NOT_FOUND = "not_found"
    DIED = "died"


class HandlerError(Exception):
    error_class = ErrorClass.UNKNOWN
    retry_after: float | None = None


class Transient(HandlerError):
    error_class = ErrorClass.TRANSIENT

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttled(Transient):
    error_class = ErrorClass.THROTTLED


class Permanent(HandlerError):
    error_class = ErrorClass.PERMANENT
