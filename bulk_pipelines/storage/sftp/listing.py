"""Listing SFTP folders by the protocol's own requests.

paramiko's own listings decode every name as UTF-8, and end in an error at the first name that is not UTF-8.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from paramiko import SFTPAttributes
from paramiko.sftp import CMD_CLOSE, CMD_OPENDIR, CMD_READDIR

if TYPE_CHECKING:
    from collections.abc import Iterator

    import paramiko

AHEAD = 16
"""How many requests are on their way at once. Servers answer each with some hundred names."""


def listing(channel: paramiko.SFTPClient, path: str) -> Iterator[list[tuple[str, SFTPAttributes]]]:
    """Yield the names in a folder with their attributes, one answer of the server at a time. Bytes of a name that are
    not UTF-8 become surrogates."""
    protocol: Any = channel  # its private methods are used, as paramiko's public ones do
    _, opened = protocol._request(CMD_OPENDIR, path)
    handle = opened.get_string()
    asked = deque(protocol._async_request(type(None), CMD_READDIR, handle) for _ in range(AHEAD))
    while True:
        try:
            _, answer = protocol._read_response(asked.popleft())
        except EOFError:  # the server said that the listing is over; a broken connection is an SSHException here
            break
        asked.append(protocol._async_request(type(None), CMD_READDIR, handle))
        yield [each for each in entries_in(answer) if each[0] not in {".", ".."}]
    protocol._request(CMD_CLOSE, handle)


def entries_in(answer: paramiko.Message) -> Iterator[tuple[str, SFTPAttributes]]:
    for _ in range(answer.get_int()):
        name = answer.get_string().decode(errors="surrogateescape")
        answer.get_string()  # a line as `ls` writes it, which is not needed
        about = SFTPAttributes()
        about._unpack(answer)  # type: ignore[attr-defined] # as paramiko's own listings read it
        yield name, about
