"""How an error is answered: as RFC 9457 problem details. The type of a problem is stable, so programs may rely on it;
it is also the address of a page that says what to do."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from bulk_pipelines import errors
from bulk_pipelines.database import faults
from bulk_pipelines.engine import errors as of_jobs
from bulk_pipelines.imports.sent.digests import DigestMismatch
from bulk_pipelines.storage import errors as of_storages

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
SOON = 5
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Problem:
    """A type of problem."""

    status: int
    title: str
    remedy: str


PROBLEMS = {
    "invalid-input": Problem(400, "A value is wrong", "Mend the field that is named, and send the request again."),
    "unsafe-path": Problem(400, "A name or an address is not allowed", "Name a file that may be read from here."),
    "bad-compression": Problem(
        400,
        "The file is not compressed as it should be",
        "Send the file plain, or whole and compressed by gzip, zstd, bzip2 or xz.",
    ),
    "digest-mismatch": Problem(
        400, "The content is not what its digest says", "Send it again: it was changed on its way, or is another file."
    ),
    "cut-off": Problem(400, "The body ended too early", "Send it again, or as a resumable upload."),
    "unauthenticated": Problem(401, "Nobody knows who asks", "Send a valid key: Authorization: Bearer bulk_…"),
    "forbidden": Problem(403, "The caller may not do this", "Ask an administrator, or use a key of a wider scope."),
    "not-found": Problem(404, "There is no such thing", "Look the key up in a list; it may belong to somebody else."),
    "no-such-endpoint": Problem(404, "There is no such endpoint", "See /docs for all of them."),
    "method-not-allowed": Problem(405, "The endpoint has no such method", "See the header Allow, or /docs."),
    "not-acceptable": Problem(406, "There is no such form of it", "Ask for one of the formats that /docs names."),
    "too-slow": Problem(408, "The body came too slowly", "Send it again, or as a resumable upload."),
    "conflict": Problem(409, "The request contradicts what is there", "Look at the state of the job first."),
    "wrong-state": Problem(409, "The state of the job does not allow it", "Look at the state of the job first."),
    "in-flight": Problem(409, "The first request with this key is still arriving", "Send it again after Retry-After."),
    "mismatching-upload-offset": Problem(
        409, "The upload is at another offset", "Go on at Upload-Offset of this answer."
    ),
    "inconsistent-upload-length": Problem(
        400, "The lengths contradict each other", "Begin the upload anew, with its true length."
    ),
    "completed-upload": Problem(400, "The upload is complete", "Nothing can be added to it: look at its import."),
    "gone": Problem(410, "It is not there any more", "Retention or its owner has removed it: make it anew."),
    "length-required": Problem(411, "The length must be told", "Send the header Content-Length."),
    "too-large": Problem(413, "It is larger than allowed", "Send less, or ask an administrator for a higher limit."),
    "unsupported-media-type": Problem(415, "The form of the body is not known", "Send one that /docs names."),
    "range-not-satisfiable": Problem(416, "The range lies outside of the file", "Ask for a range within its size."),
    "idempotency-key-reused": Problem(
        422, "The idempotency key stands for another request", "Use a new key for a new request."
    ),
    "over-quota": Problem(429, "An owner has as much as one owner may", "Wait for Retry-After, or for jobs to end."),
    "internal-error": Problem(500, "Something went wrong here", "Tell an administrator the request id."),
    "upstream-failed": Problem(502, "A server that is needed answers wrongly", "Ask an administrator to look at it."),
    "unavailable": Problem(503, "Something that is needed does not answer now", "Send it again after Retry-After."),
    "storage-full": Problem(507, "The storage has no room left", "Ask an administrator to make room."),
}

BY_ERROR: Mapping[type[errors.BulkError], str] = {
    errors.BulkError: "internal-error",
    errors.InvalidInput: "invalid-input",
    DigestMismatch: "digest-mismatch",
    of_storages.UnsafePath: "unsafe-path",
    of_storages.OverLimit: "too-large",
    of_storages.BadCompression: "bad-compression",
    errors.Conflict: "conflict",
    of_jobs.IdempotencyConflict: "idempotency-key-reused",
    of_jobs.InFlight: "in-flight",
    of_jobs.WrongState: "wrong-state",
    errors.NotFound: "not-found",
    errors.Gone: "gone",
    errors.Unavailable: "unavailable",
    errors.Cancelled: "conflict",
    errors.Unauthenticated: "unauthenticated",
    errors.Forbidden: "forbidden",
    errors.OverQuota: "over-quota",
    errors.Failure: "upstream-failed",
    errors.Transient: "unavailable",
    of_storages.Missing: "not-found",
    of_storages.Full: "storage-full",
}
"""The type of problem for each error. An error that is not named here has the type of the nearest error above it."""

BY_STATUS = {404: "no-such-endpoint", 405: "method-not-allowed"}
"""The type of problem for each refusal of the framework."""


class Refusal(HTTPException):
    """An error that only this door knows."""

    def __init__(
        self, problem: str, detail: str, *, headers: dict[str, str] | None = None, **members: str | int
    ) -> None:
        super().__init__(PROBLEMS[problem].status, detail, headers)
        self.problem = problem
        self.members = members


def problem_of(error: errors.BulkError) -> str:
    """Return the type of problem that an error is."""
    return next(BY_ERROR[each] for each in type(error).__mro__ if each in BY_ERROR)


def body_of(problem: str, detail: str, request: Request | None = None, **members: Any) -> dict[str, Any]:
    known = PROBLEMS[problem]
    trace = None if request is None else getattr(request.state, "trace", None)
    return {
        "type": f"/problems/{problem}",
        "title": known.title,
        "status": known.status,
        "detail": detail,
        "remedy": known.remedy,
        **({"request_id": trace.request_id} if trace else {}),
        **members,
    }


def answered(
    problem: str, detail: str, request: Request, headers: Mapping[str, str] | None = None, **members: Any
) -> Response:
    body = json.dumps(body_of(problem, detail, request, **members), ensure_ascii=False)
    # The detail may quote half of a surrogate pair, which UTF-8 cannot hold. It is shown as JSON spells it.
    shown = body.encode("utf-8", "backslashreplace")
    return Response(shown, PROBLEMS[problem].status, dict(headers or {}), MEDIA_TYPE)


def answer_ours(request: Request, error: Exception) -> Response:
    """Answer an error of `errors.py`. Its message is one line that a person can act on, and holds no secret."""
    assert isinstance(error, errors.BulkError)
    problem = problem_of(error)
    headers: dict[str, str] = {}
    wait = getattr(error, "retry_after", None)
    if wait is not None or problem == "unavailable":
        headers["Retry-After"] = str(math.ceil(SOON if wait is None else wait))
    if problem == "unauthenticated":
        headers["WWW-Authenticate"] = 'Bearer realm="bulk_pipelines"'
    members = {"field": error.field} if isinstance(error, errors.InvalidInput) else {}
    if isinstance(error, of_jobs.IdempotencyConflict):
        members["job_id"] = error.job_key
    return answered(problem, " ".join(str(error).split()), request, headers, **members)


def answer_framework(request: Request, error: Exception) -> Response:
    """Answer what the framework or an endpoint refuses as a matter of HTTP."""
    assert isinstance(error, AnyHTTPException)
    if isinstance(error, Refusal):
        return answered(error.problem, str(error.detail), request, error.headers, **error.members)
    problem = BY_STATUS.get(error.status_code, "invalid-input" if error.status_code < 500 else "internal-error")
    detail = f"{request.method} {request.url.path}: {HTTPStatus(error.status_code).phrase}"
    headers = {"Allow": allowed(request)} if error.status_code == 405 else error.headers
    return answered(problem, detail if problem in BY_STATUS.values() else str(error.detail), request, headers)


def allowed(request: Request) -> str:
    """Return all methods of an address. The framework names only those of the first endpoint that it finds there, and
    no HEAD, which goes with GET everywhere."""
    routes = request.app.router.routes

    def has(method: str) -> bool:
        return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)

    return ", ".join(each for each in METHODS if has(each) or (each == "HEAD" and has("GET")))


def answer_invalid(request: Request, error: Exception) -> Response:
    """Answer a request whose parameters or body do not have the declared form, with all that is wrong."""
    assert isinstance(error, RequestValidationError)
    found = [{"field": field_of(each["loc"]), "message": str(each["msg"])[:500]} for each in error.errors()[:20]]
    first = found[0] if found else {"field": "body", "message": "is not valid"}
    return answered(
        "invalid-input", f"{first['field']}: {first['message']}", request, field=first["field"], errors=found
    )


def field_of(place: tuple[int | str, ...]) -> str:
    """Return a field in the words of the request: `inputs.3.indexKey`, without where in the request it stood."""
    return ".".join(str(each) for each in place[1:])[:200] or str(place[0])


def answer_database(request: Request, error: Exception) -> Response:
    """Answer an error of PostgreSQL that nobody expected. If it may pass, the client is asked to try again; else it
    learns nothing about the error."""
    assert isinstance(error, psycopg.Error)
    if faults.passes(error):
        return answered("unavailable", "the database cannot do it now", request, {"Retry-After": str(SOON)})
    return answer_unforeseen(request, error)


def answer_half_character(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Answer a request whose JSON has half of a surrogate pair in it: such a text cannot be sent to the database."""
    return answered("invalid-input", "the request contains half a surrogate pair, which is not Unicode text", request)


def answer_nobody(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Answer a client that has gone away in the middle of its request. Nobody hears the answer, and the log has no
    error."""
    return answered("cut-off", "the connection ended before the body did", request)


def answer_unforeseen(request: Request, error: Exception) -> Response:
    trace = getattr(request.state, "trace", None)
    log.error("request %s failed", trace.request_id if trace else "?", exc_info=error)
    return answered("internal-error", "the request could not be answered; the log says why", request)


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.BulkError, answer_ours)
    app.add_exception_handler(AnyHTTPException, answer_framework)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(psycopg.Error, answer_database)
    app.add_exception_handler(UnicodeEncodeError, answer_half_character)
    app.add_exception_handler(ClientDisconnect, answer_nobody)
    app.add_exception_handler(Exception, answer_unforeseen)
