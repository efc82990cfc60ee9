"""Reading SFTP files by the protocol's own requests, many of which are on their way at once.

paramiko asks for pieces in threads of its own. Such a thread may go on asking when its channel is closed, and servers
give the number of a closed channel to the next one: the answer would be taken for one to another file's reader.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from paramiko import SFTPError
from paramiko.sftp import CMD_DATA, CMD_READ, CMD_STATUS, int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    import paramiko

REQUEST = 32 << 10
"""Bytes that every server reads in one request."""
AHEAD = 128
"""How many requests are on their way at least, so that a distant server costs little time. Requests are sent in lots of
this size, because a server answers many that come together in half the time."""


def parts_of(channel: paramiko.SFTPClient, file: paramiko.SFTPFile, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes of a range, as the server sends them. End early where the file ends."""
    protocol: Any = channel  # its private methods are used, as paramiko's public ones do
    answers = Answers(protocol)

    def ask(at: int, end: int) -> int:
        number: int = protocol._async_request(answers, CMD_READ, file.handle, int64(at), end - at)
        return number

    ranges = ((at, min(at + REQUEST, stop)) for at in range(start, stop, REQUEST))
    asked: deque[tuple[int, int, int]] = deque()
    while True:
        if len(asked) < AHEAD:
            asked.extend((ask(*wanted), *wanted) for wanted in islice(ranges, AHEAD))
        if not asked:
            return
        number, at, end = asked.popleft()
        while data := answers.data(number):
            yield data
            at += len(data)
            if at >= end:
                break
            number = ask(at, end)  # a server may send less than it was asked for
        else:
            return


class Answers:
    """What a server answered, by the numbers of the requests. It may answer them in any order."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.kept: dict[int, tuple[int, paramiko.Message]] = {}

    def _async_response(self, kind: int, answer: paramiko.Message, number: int) -> None:
        """Take an answer; paramiko calls this method by its name."""
        self.kept[number] = kind, answer

    def data(self, number: int) -> bytes:
        """Return the bytes that were asked for by a request; none where the file ends."""
        while number not in self.kept:
            self.protocol._read_response()
        kind, answer = self.kept.pop(number)
        if kind == CMD_STATUS:
            try:
                self.protocol._convert_status(answer)
            except EOFError:
                return b""
        if kind != CMD_DATA:
            raise SFTPError("an answer without data")
        return answer.get_string()
