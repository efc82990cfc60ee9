"""From a URL to the storage it lies in."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.storage import addresses, paths
from bulk_pipelines.storage.access import Access
from bulk_pipelines.storage.addresses import Address
from bulk_pipelines.storage.contract import Source, Storage
from bulk_pipelines.storage.errors import UnsafePath


def folder(url: str, access: Access, field: str = "url") -> Storage:
    """The storage whose root is that folder."""
    address = addresses.parse(url, field)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(
            field, f"{addresses.redacted(url)} is a web address: it can only be read, one file at a time"
        )
    root = address.path.rstrip("/")
    return storage(address, root or ("/" if address.path.startswith("/") else ""), access)


def file(url: str, access: Access, field: str = "url", within: str | None = None) -> tuple[Storage, str]:
    """The storage that holds that file, and the file's key in it; `within`: the folder that no link may lead out of."""
    address = addresses.parse(url, field)
    if address.scheme in {"http", "https"}:
        raise InvalidInput(field, f"{addresses.redacted(url)} is a web address: it can only be read")
    root, key = split(address, field, within)
    return storage(address, root, access), key


def source(url: str, access: Access, field: str = "url") -> tuple[Source, str]:
    """What that file can be read from, and its key there."""
    address = addresses.parse(url, field)
    if address.scheme in {"http", "https"}:
        return web(address, access), address.path
    return file(url, access, field)


class Sources:
    """Sources that stay open while many files are read: one login for all files of a server. Threads may share it."""

    def __init__(self, access: Access, within: str | None = None) -> None:
        """`within`: the folder of this machine that its files lie in, and that links must not lead out of."""
        self.access = access
        self.within = within
        self.known: dict[tuple[str, str | None, str], Storage] = {}
        self.lock = threading.Lock()

    def source(self, url: str, field: str = "url") -> tuple[Source, str]:
        address = addresses.parse(url, field)
        if address.scheme in {"http", "https"}:
            return web(address, self.access), address.path
        root, key = split(address, field, self.within)
        with self.lock:
            same = (address.server, address.password, root)
            if same not in self.known:
                self.known[same] = storage(address, root, self.access)
            return self.known[same], key

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.known.values():
            each.close()


def split(address: Address, field: str, within: str | None = None) -> tuple[str, str]:
    """The root of the storage that a file is in, and its key there."""
    if address.scheme == "file" and within is not None:
        path = Path(address.path)
        if not path.is_relative_to(within):
            raise UnsafePath(field, f"{path} is not in {within}")
        return within, paths.check(str(path.relative_to(within)), field)
    if address.scheme == "file":
        # Whoever names a file may name it by a link; from here on, links are not to lead out of its folder.
        root, _, key = os.path.realpath(address.path).rpartition("/")
        return root or "/", key
    key = address.path if address.scheme == "s3" else address.path.removeprefix("/")
    return "/" if key != address.path else "", paths.check(key, field)


def web(address: Address, access: Access) -> Source:
    from bulk_pipelines.storage.http import HttpSource  # noqa: PLC0415 - each storage's libraries load when needed

    return HttpSource(address, access)


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
