"""Which files a request may name by an address. The server reads them with its own rights, so it must not read for
somebody what they could not read themselves."""

from dataclasses import replace
from pathlib import Path

from bulk_pipelines.api.door import Door, listed
from bulk_pipelines.errors import Forbidden, InvalidInput
from bulk_pipelines.storage import addresses
from bulk_pipelines.storage.addresses import Address

WEB = ("http", "https")


def allowed(door: Door, admin: bool, sources: list[str]) -> str | None:
    """Check the addresses of an import. If they are files of this machine, return the folder that all of them lie
    below: it is opened without following links out of it."""
    if not sources:
        raise InvalidInput("url", "no file is named")
    parsed = [addresses.parse(source, "url") for source in sources]
    local = [each for each in parsed if each.scheme == "file"]
    if local and not admin:
        raise Forbidden("files of the server are named by administrators only: send the file itself")
    if local:
        if len(local) != len(parsed):
            raise InvalidInput("url", "files of the server and addresses do not go together in one import")
        return folder_of(door, local)
    for address in parsed:
        if address.scheme not in WEB and not admin and not any(is_below(address, each) for each in open_to_all(door)):
            raise Forbidden(
                f"{address.scheme}:// addresses are read with the server's own rights: administrators name them, or "
                "those that BULK_API_SOURCES lists"
            )
    return None


def folder_of(door: Door, files: list[Address]) -> str:
    """Return the configured folder that all of these files are below."""
    for folder in (Path(each) for each in door.settings.api_folders.split(":") if each):
        if folder.is_absolute() and all(is_plainly_below(Path(file.path), folder) for file in files):
            return str(folder)
    raise Forbidden("the file is not below any of the folders that BULK_API_FOLDERS names")


def is_plainly_below(path: Path, folder: Path) -> bool:
    return ".." not in path.parts and path.is_relative_to(folder) and path != folder


def open_to_all(door: Door) -> list[Address]:
    return [addresses.parse(each, "BULK_API_SOURCES") for each in listed(door.settings.api_sources)]


def is_below(address: Address, folder: Address) -> bool:
    """Whether an address lies in a folder: on the same server, as the same user or in the same bucket, and below its
    path. A path that begins with a slash there, or has `..` in it, leads elsewhere."""
    beginning = f"{folder.path.rstrip('/')}/" if folder.path else ""
    return (
        replace(address, path="") == replace(folder, path="")
        and ".." not in address.path.split("/")
        and address.path.startswith(beginning)
        and not address.path.removeprefix(beginning).startswith("/")
    )
