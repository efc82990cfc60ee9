"""Writing SFTP files, many requests of which are on their way at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import paramiko


def confirm(channel: paramiko.SFTPClient, file: paramiko.SFTPFile) -> None:
    """See that the server took every piece of a file. paramiko looks at the answers while more than a hundred are on
    their way, and throws the others away when the file is closed: a piece that the server refused would be missing."""
    protocol: Any = channel  # the private methods and fields are used as paramiko's own
    pieces: Any = file
    while pieces._reqs:
        protocol._read_response(pieces._reqs.popleft())  # it raises what the server says
