"""From a URL to the storage it lies in."""

import os
from pathlib import Path

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import addresses, paths
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.addresses import Address
from bulk_pipelines.storage.contract import Source, Storage


def folder(url: str, access: Access, field: str = "url") -> Storage:
    """The storage whose root is that folder."""
    address = addresses.parse(url, field)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(
            field, f"{addresses.redacted(url)} is a web address: it can only be read, one file at a time"
        )
    root = address.path.rstrip("/")
    return storage(address, root or ("/" if address.path.startswith("/") else ""), access)


def file(url: str, access: Access, field: str = "url") -> tuple[Storage, str]:
    """The storage that holds that file, and the file's key in it."""
    address = addresses.parse(url, field)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(field, f"{addresses.redacted(url)} is a web address: it can only be read")
    if address.scheme == "file":
        # Whoever names a file may name it by a link; from here on, links are not to lead out of its folder.
        path = os.path.realpath(address.path)
    else:
        path = paths.check(address.path, field) if address.scheme == "s3" else address.path
    parent, _, name = path.rpartition("/")
    if not name:
        raise InvalidInput(field, f"{addresses.redacted(url)} names a folder, not a file")
    return storage(address, parent or ("/" if path.startswith("/") else ""), access), name


def source(url: str, access: Access, field: str = "url") -> tuple[Source, str]:
    """What that file can be read from, and its key there."""
    address = addresses.parse(url, field)
    if address.scheme in {"http", "https"}:
        from bulk_pipelines.storage.http import HttpSource  # noqa: PLC0415 - each storage's libraries load when needed

        return HttpSource(address, access), address.path
    return file(url, access, field)


def storage(address: Address, root: str, access: Access) -> Storage:
    """The libraries of each storage load when it is needed."""
    match address.scheme:
        case "file":
            from bulk_pipelines.storage.local import LocalStorage  # noqa: PLC0415

            return LocalStorage(Path(root))
        case "s3":
            from bulk_pipelines.storage.s3 import S3Storage  # noqa: PLC0415

            return S3Storage(address.host, root, access.s3, access.ca_file)
        case "ftp" | "ftps" | "ftpes":
            from bulk_pipelines.storage.ftp import FtpStorage  # noqa: PLC0415

            return FtpStorage(address, root, access)
        case _:
            from bulk_pipelines.storage.sftp import SftpStorage  # noqa: PLC0415

            return SftpStorage(address, root, access)
