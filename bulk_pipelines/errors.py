"""The errors of the whole program, as one tree. Each message is one line that a person can act on.

BulkError
  InvalidInput             a value that was given is wrong; names the field
    UnsafePath             a name that could leave its folder, or an address that must not be called
    OverLimit              larger, slower or more tightly compressed than allowed
    BadCompression         not what it was said to be, damaged or cut off
    Unfit                  a file does not fit as it is read; names the options that would help
    DigestMismatch         content that was sent is not what its digest says
  Conflict                 the request contradicts what is already there
    IdempotencyConflict    the key was used before, for another request
    InFlight               the first request with this key is still arriving
    WrongState             the job's state does not allow what was asked
    TakenOver              another request goes on with this upload
  NotFound                 what was asked for does not exist
    UnknownJob             no job has this key
    Gone                   it was there, and is not there any more
    Missing                a storage has nothing under this name
  Unavailable              a server or a file that is needed cannot be reached now
    Transient              a failure that may pass: worth another try
      Throttled            the other side asks for less: everyone slows down
        PutOff             nobody was asked, because our own limit allowed no request: no attempt is counted
      SourceChanged        the file was written, replaced or removed while it was read
  Cancelled                a person called it off before its end
  Unauthenticated          nobody knows who asks
  Forbidden                the caller may not do this
  OverQuota                an owner has as much as one owner may have now
  Failure                  a try failed; its class says whether another one may do better
    Transient              see above
    Permanent              will not pass by trying again
      Missing              see above
      Refused              credentials are missing, wrong or not enough; a certificate is not trusted
      Full                 the target has no room left
      NotSatisfiable       the range that was asked for begins behind the end of the object
      Undecoded            the bytes are no picture of a known format
      UnsafePath           see above
      OverLimit            see above
      BadCompression       see above
LeaseLost                  somebody else holds the item now: the work is dropped, never shown

The errors of jobs are in `engine.errors`, those of storages in `storage.errors`; an error that one module raises stands
in that module. A handler may raise any of them;
`engine.worker.retry` decides by its `error_class` whether the item is tried again.
"""

from enum import StrEnum
from typing import ClassVar


class ErrorClass(StrEnum):
    """The class of an item's failure, as the database keeps it. Retries and backoff go by it."""

    TRANSIENT = "transient"
    THROTTLED = "throttled"
    UNKNOWN = "unknown"
    PERMANENT = "permanent"
    NOT_FOUND = "not_found"
    DIED = "died"


class BulkError(Exception):
    """Something a person can put right. It is shown without a traceback."""

    error_class: ClassVar[ErrorClass] = ErrorClass.PERMANENT


class InvalidInput(BulkError):
    """A value that was given is wrong; nothing has been written."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Conflict(BulkError):
    """The request contradicts what is already there."""


class NotFound(BulkError):
    """What was asked for does not exist."""


class Gone(NotFound):
    """What was asked for was there, and is not there any more."""


class Unavailable(BulkError):
    """A server or a file that is needed cannot be reached now."""

    error_class = ErrorClass.TRANSIENT


class Cancelled(BulkError):
    """A person cancelled the work before its end."""


class Unauthenticated(BulkError):
    """Nobody knows who asks."""


class Forbidden(BulkError):
    """The caller may not do this."""


class OverQuota(BulkError):
    """An owner has as much open, or has sent as much, as one owner may."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Failure(BulkError):
    """A try failed. The message never holds a secret."""

    error_class = ErrorClass.UNKNOWN
    retry_after: float | None = None
    """How many seconds the other side asked to wait."""
    counted: ClassVar[bool] = True
    """Whether the try counts as an attempt."""


class Transient(Failure, Unavailable):
    """A failure that may pass: it is worth another try."""

    error_class = ErrorClass.TRANSIENT

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttled(Transient):
    """The other side asks for less: the item is tried again, and every worker slows down."""

    error_class = ErrorClass.THROTTLED


class PutOff(Throttled):
    """Our own limit did not allow the request that the item needs. Nobody was asked, so no attempt is counted."""

    counted = False


class Permanent(Failure):
    """A failure that will not pass by trying again."""

    error_class = ErrorClass.PERMANENT
