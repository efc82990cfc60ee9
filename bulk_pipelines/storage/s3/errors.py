"""Translating an S3 server's refusals into the errors of `errors`, from obstore's exceptions or from a plain answer."""

import re

from obstore.exceptions import PermissionDeniedError, PreconditionError, UnauthenticatedError

from bulk_pipelines.errors import Failure, Permanent, Throttled, Transient
from bulk_pipelines.storage.errors import Missing, Refused, SourceChanged

SLOWER = {
    "SlowDown",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TooManyRequests",
}
PASSING = {"RequestTimeout", "InternalError", "OperationAborted", "ConditionalRequestConflict", "NoSuchUpload"}
CREDENTIALS = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "SignatureDoesNotMatch"}
ELSEWHERE = {
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}


class NotSatisfiable(Permanent):
    """The range that was asked for begins behind the end of the object."""


def error_of(error: Exception, url: str, signed: bool) -> Failure:
    """Return the error that an exception of obstore means. obstore tells the server's answer only in the exception's
    text, which also holds more than may be shown."""
    text = str(error)
    code = re.search(r"<Code>(\w+)</Code>", text)
    if status := re.search(r"status code: (\d{3})", text):
        return answered(int(status[1]), code[1] if code else "", url, signed)
    match error:
        case FileNotFoundError():
            return Missing(f"{url} does not exist")
        case PermissionDeniedError() | UnauthenticatedError():
            return answered(403, "", url, signed)
        case PreconditionError():
            return answered(412, "", url, signed)
        case ValueError():
            return Permanent(f"{url} is not a name that S3 takes")
    return Transient(f"the S3 server of {url} cannot be reached, or the connection to it broke")


def answered(status: int, code: str, url: str, signed: bool, retry_after: float | None = None) -> Failure:  # noqa: PLR0911
    """Return the error that an answer other than success means."""
    said = f"S3 answered {status}{f' {code}' if code else ''} for {url}"
    if status in {429, 503} or code in SLOWER:
        return Throttled(said, retry_after)
    if status >= 500 or status == 408 or code in PASSING:
        return Transient(said, retry_after)
    if code == "NoSuchBucket":
        return Missing(f"the bucket of {url} does not exist")
    if status == 404:
        return Missing(f"{url} does not exist")
    if status in {301, 307, 308} or code in ELSEWHERE:
        return Permanent(f"{said}: the bucket is in another region, see BULK_S3_REGION")
    if status in {401, 403} or code in CREDENTIALS or (status == 400 and not signed):
        if not signed:
            return Refused(f"{url} needs credentials, and none were given: see BULK_S3_ACCESS_KEY_ID ({said})")
        return Refused(f"{said}: the credentials are wrong or may not do that")
    if status == 412:
        return SourceChanged(f"{url} was written to while it was read")
    if status == 416:
        return NotSatisfiable(said)
    return Permanent(said)
