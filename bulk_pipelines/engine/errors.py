"""Errors about jobs and items; `bulk_pipelines.errors` shows the whole tree."""

from bulk_pipelines import errors


class UnknownJob(errors.NotFound):
    """No job has this key."""

    def __init__(self, job_key: str) -> None:
        super().__init__(f"no job has the key {job_key!r}")


class IdempotencyConflict(errors.Conflict):
    """The idempotency key was used before, for another request."""

    def __init__(self, idempotency_key: str, job_key: str) -> None:
        super().__init__(
            f"idempotency key {idempotency_key!r} was used for another request, job {job_key}: use a new key"
        )
        self.job_key = job_key


class InFlight(errors.Conflict):
    """The first request with this idempotency key is still arriving."""

    def __init__(self, idempotency_key: str, retry_after: float) -> None:
        super().__init__(f"the first request with the idempotency key {idempotency_key!r} is still arriving")
        self.retry_after = retry_after


class WrongState(errors.Conflict):
    """The job's state does not allow what was asked."""

    def __init__(self, job_key: str, state: str, event: str) -> None:
        super().__init__(f"job {job_key} is {state}: it cannot {event}")


class LeaseLost(Exception):
    """The item was taken from this worker: nothing that the worker did for it may be written."""

    def __init__(self, item_id: int, lease_term: int) -> None:
        super().__init__(f"the lease {lease_term} of item {item_id} is lost")
