"""The errors a user can cause or must act on; each is one clear line.

BulkError
  InvalidInput      a value that was given is wrong; names the field
  Conflict          the request contradicts what is already there
  NotFound          what was asked for does not exist
  Unavailable       a server or a file that is needed cannot be reached
  Cancelled         a person called it off before its end
"""


class BulkError(Exception):
    """Something a person can put right. Shown without a traceback."""


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


class Unavailable(BulkError):
    """A server or a file that is needed cannot be reached now."""


class Cancelled(BulkError):
    """A person called it off before its end."""
