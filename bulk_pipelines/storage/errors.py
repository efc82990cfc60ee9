"""The errors of storages. `bulk_pipelines.errors` shows the whole tree.

No message ever holds a secret.
"""

from bulk_pipelines import errors


class SourceChanged(errors.Transient):
    """The file was written, replaced or removed while it was read."""


class Missing(errors.Permanent, errors.NotFound):
    """The storage has no such file, folder or bucket."""


class Refused(errors.Permanent):
    """Credentials are missing, wrong or not enough, or a certificate is not trusted."""


class Full(errors.Permanent):
    """The target has no room left."""


class UnsafePath(errors.Permanent, errors.InvalidInput):
    """A name could leave its folder, or an address must not be called."""


class OverLimit(errors.Permanent, errors.InvalidInput):
    """The source is larger, slower or more tightly compressed than allowed."""


class BadCompression(errors.Permanent, errors.InvalidInput):
    """The file is not compressed as it was said to be, is damaged or was cut off."""
