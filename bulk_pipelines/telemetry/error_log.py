"""The log of errors that nobody expected: the command line shows one line of each, and the rest is here."""

import os
import tempfile
import traceback
from datetime import UTC, datetime
from typing import IO

from bulk_pipelines import settings
from bulk_pipelines.errors import BulkError

LONGEST = 1_000_000


def kept(error: Exception) -> str:
    """Append the traceback to a log that only its owner can read, and return words that name the log."""
    details = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n{''.join(traceback.format_exception(error))}\n"
    try:
        with opened() as log:
            log.write(details.encode(errors="backslashreplace"))
            return f"details in {log.name}"
    except OSError:
        return "the details cannot be written anywhere"


def opened() -> IO[bytes]:
    """Open the log in the home, or a new one in the temporary folder when the home cannot be written."""
    try:
        log = settings.current().home / "logs" / "errors.log"
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LONGEST:
            log.replace(log.with_suffix(".log.old"))
        return open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))
    except (BulkError, OSError):
        return tempfile.NamedTemporaryFile("wb", prefix="bulk-error-", suffix=".log", delete=False)
