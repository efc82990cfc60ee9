"""What the errors of this machine's files mean to a storage."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from bulk_pipelines.errors import Failure, Permanent, Transient
from bulk_pipelines.storage.errors import Full, Missing, Refused

GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""The errors of a file that was taken away since it was listed, or of links in circles."""
KINDS: dict[int, type[Failure]] = {
    **dict.fromkeys([errno.EACCES, errno.EPERM, errno.EROFS], Refused),
    **dict.fromkeys([errno.ENOSPC, errno.EDQUOT, errno.EFBIG], Full),
    **dict.fromkeys([errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY, errno.EMFILE, errno.ENFILE], Transient),
}

NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""The errors by which systems say that a file cannot have a second name: because of its disk, or because it belongs to
another user."""


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Translate the system's errors into the errors of `errors`."""
    try:
        yield
    except Failure:
        raise
    except OSError as error:
        raise error_of(error, url) from error


def error_of(error: OSError, url: str) -> Failure:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return Missing(f"{url} does not exist")
        case IsADirectoryError():
            return Permanent(f"{url} is a folder, not a file")
    return KINDS.get(error.errno or 0, Permanent)(f"{url}: {error.strerror}")
