"""The API's problems (RFC 9457) become the errors of this program. Each error also has the `status`, the `request_id`,
and the `remedy`, which says what to do about it."""

from collections.abc import Mapping
from typing import Any

import httpx

from bulk_pipelines import errors
from bulk_pipelines.engine import errors as of_jobs
from bulk_pipelines.errors import BulkError
from bulk_pipelines.storage import errors as of_storages

BY_PROBLEM: Mapping[str, type[BulkError]] = {
    "invalid-input": errors.InvalidInput,
    "unsafe-path": of_storages.UnsafePath,
    "bad-compression": of_storages.BadCompression,
    "digest-mismatch": errors.InvalidInput,
    "cut-off": errors.InvalidInput,
    "unauthenticated": errors.Unauthenticated,
    "forbidden": errors.Forbidden,
    "not-found": errors.NotFound,
    "no-such-endpoint": errors.NotFound,
    "gone": errors.Gone,
    "too-slow": errors.Transient,
    "conflict": errors.Conflict,
    "wrong-state": of_jobs.WrongState,
    "in-flight": of_jobs.InFlight,
    "mismatching-upload-offset": errors.Conflict,
    "too-large": of_storages.OverLimit,
    "idempotency-key-reused": of_jobs.IdempotencyConflict,
    "over-quota": errors.OverQuota,
    "internal-error": errors.Failure,
    "upstream-failed": errors.Failure,
    "unavailable": errors.Unavailable,
    "storage-full": of_storages.Full,
}
"""The error for each type of problem. A problem that is not named here becomes the error of its status."""

BY_STATUS: Mapping[int, type[BulkError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.Transient,
    409: errors.Conflict,
    410: errors.Gone,
    429: errors.OverQuota,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def error_of(answer: httpx.Response) -> BulkError:
    """Return the error that an answer stands for. The body of the answer must have been read."""
    told = body_of(answer)
    name = str(told.get("type", "")).rpartition("/")[2]
    status = answer.status_code
    kind = BY_PROBLEM.get(name) or BY_STATUS.get(status) or (errors.InvalidInput if status < 500 else errors.Failure)
    detail = str(told.get("detail") or f"{answer.request.method} {answer.request.url.path}: {status}")
    error = kind.__new__(kind, detail)
    error.args = (detail,)
    wait = answer.headers.get("Retry-After", "")
    field = str(told.get("field") or "request")
    known = {
        "status": status,
        "problem": name or None,
        "remedy": told.get("remedy"),
        "request_id": told.get("request_id") or answer.headers.get("X-Request-ID"),
        "retry_after": float(wait) if wait.isdigit() else None,
        "job_key": told.get("job_id"),
        **({"field": field, "message": detail.removeprefix(f"{field}: ")} if kind_of_input(kind) else {}),
    }
    for attribute, value in known.items():
        setattr(error, attribute, value)
    return error


def kind_of_input(kind: type[BulkError]) -> bool:
    return issubclass(kind, errors.InvalidInput)


def body_of(answer: httpx.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
