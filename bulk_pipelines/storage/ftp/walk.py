"""Listing the files of a folder on an FTP server and of the folders in it, one folder at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from bulk_pipelines.errors import Permanent, Transient
from bulk_pipelines.storage import paths
from bulk_pipelines.storage.contract import LeftOut
from bulk_pipelines.storage.errors import Missing, Refused
from bulk_pipelines.storage.ftp.errors import NotListed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bulk_pipelines.storage.ftp.listing import Listed
    from bulk_pipelines.storage.ftp.storage import FtpStorage

Files = list[tuple[str, "Listed"]]
"""Files with their keys."""


def walk(storage: FtpStorage, first: str, reaches: Callable[[str], bool]) -> Iterator[tuple[Files, list[LeftOut]]]:
    """Yield the files of each folder, and what is left out of them. While a listing arrives, yield empty lists several
    times."""
    with storage.pool.connection(storage.url) as connection:
        if not connection.answer(f"CWD {storage.path(connection, '')}"):
            raise Missing(f"{storage.url} does not exist")
    waiting = [first]
    while waiting:
        folder = waiting.pop()
        found: list[Listed] = []
        refusal: NotListed | None = None
        with storage.pool.connection(storage.url) as connection:
            try:
                for part in connection.listing(storage.path(connection, folder)):
                    found += part
                    yield [], []
            except NotListed as error:
                refusal = error
        if refusal:
            yield [], not_listed(storage, folder, refusal, first)
            continue
        files, folders, left_out = sorted_out(folder, found)
        waiting += filter(reaches, folders)
        yield files, left_out


def not_listed(storage: FtpStorage, folder: str, refusal: NotListed, first: str) -> list[LeftOut]:
    """Return what is left out because the server does not list a folder: nothing if the folder was removed since, else
    the folder. Raise an error if it is the first folder."""
    if folder:
        try:
            storage.stat(folder)
        except Missing:
            return []
        except Permanent:  # it is there, and it is a folder
            pass
    if folder == first:
        url = f"{storage.url}/{quote(folder)}".rstrip("/")
        raise (Transient if refusal.passing else Refused)(f"{url}: the server does not list that folder: {refusal}")
    return [LeftOut(folder, f"cannot be listed: {refusal}", unread=True)]


def sorted_out(folder: str, found: list[Listed]) -> tuple[Files, list[str], list[LeftOut]]:
    """Return the files in a folder, the folders in it, and what cannot be taken."""
    files: Files = []
    folders: list[str] = []
    left_out: list[LeftOut] = []
    for each in found:
        key = f"{folder}/{each.name}" if folder else each.name
        if each.kind == "other":
            continue
        if problem := paths.fault(key):
            left_out.append(LeftOut(key, problem))
        elif each.kind == "file":
            files.append((key, each))
        else:
            folders.append(key)
    return files, folders, left_out
