"""Translating an FTP server's answers into the errors of `errors`."""

import ftplib
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from bulk_pipelines.errors import Failure, Permanent, Throttled, Transient
from bulk_pipelines.storage.errors import Full, Refused

NO_SUCH = {450, 501, 550, 551, 553}
"""The numbers by which servers say that there is no such file. They say other things by the same numbers."""
NO_COMMAND = {500, 502, 504}
NOT_NOW = {451, 530, 532}
"""Further numbers by which servers refuse to list a folder: for a local error, or for want of permission."""

TOO_MANY = 421
"""The number by which servers refuse one connection more."""


class NotListed(Exception):
    """The server does not list a folder, because there is none or it must not be read. The connection is fine."""

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


@contextmanager
def failures(url: str) -> Iterator[None]:
    """Translate errors of the connection, and refusals of the server, into the errors of `errors`."""
    try:
        yield
    except Failure:
        raise
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"{url}: the server's certificate is not trusted ({error.verify_message}), see BULK_CA_FILE"
        ) from None
    except ssl.SSLError as error:
        hint = ", or the other one of ftps:// and ftpes:// is meant" if error.reason == "WRONG_VERSION_NUMBER" else ""
        raise Transient(f"{url}: TLS failed ({error.reason}){hint}") from None
    except ftplib.Error as error:
        raise error_of(error, url) from None
    except ValueError:  # also of names that are not UTF-8
        raise Permanent(f"{url}: the server's answer cannot be read") from None
    except (OSError, EOFError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "the connection was closed"
        raise Transient(f"{url}: the server cannot be reached, or the connection to it broke ({reason})") from None


def error_of(error: ftplib.Error, url: str) -> Failure:
    number = code(error)
    message = f"{url}: {said(error)}"
    if number in {452, 552}:
        return Full(message)
    if number in {331, 332, 430, 530, 532, 534}:
        return Refused(message)
    if number == TOO_MANY:
        return Throttled(message)
    return Permanent(message) if 500 <= number < 600 else Transient(message)


def said(error: ftplib.Error) -> str:
    return f"FTP answered {str(error).splitlines()[0][:100]}"


def code(error: ftplib.Error) -> int:
    found = re.match(r"\d{3}", str(error))
    return int(found[0]) if found else 0
