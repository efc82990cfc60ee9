"""What can go wrong between us and a storage. No message ever holds a secret.

BulkError
  StorageError
    Transient          may pass: worth another try (also an errors.Unavailable)
      Throttled        the server asks for less; `retry_after` when it said for how long
      SourceChanged    the file was written, replaced or removed while it was read
    Permanent          will not pass by trying again
      Missing          nothing is there (also an errors.NotFound)
      Refused          credentials are missing, wrong or not enough; a certificate is not trusted
      Full             the target has no room left
      UnsafePath       a name that could leave its folder, or an address that must not be called (also an InvalidInput)
      OverLimit        larger, slower or more tightly compressed than allowed (also an InvalidInput)
      BadCompression   not what it was said to be, damaged or cut off (also an InvalidInput)
"""

from typing import ClassVar

from bulk_pipelines import errors


class StorageError(errors.BulkError):
    error_class: ClassVar[str] = "unknown"
    """The engine's word for this kind of failure: transient, throttled or permanent."""
    retry_after: float | None = None
    """Seconds the server asked us to wait."""


class Transient(StorageError, errors.Unavailable):
    error_class = "transient"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttled(Transient):
    error_class = "throttled"


class SourceChanged(Transient):
    pass


class Permanent(StorageError):
    error_class = "permanent"


class Missing(Permanent, errors.NotFound):
    pass


class Refused(Permanent):
    pass


class Full(Permanent):
    pass


class UnsafePath(Permanent, errors.InvalidInput):
    pass


class OverLimit(Permanent, errors.InvalidInput):
    pass


class BadCompression(Permanent, errors.InvalidInput):
    pass
