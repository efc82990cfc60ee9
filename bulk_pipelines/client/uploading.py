"""Uploads of files. A small file goes in one request, which may be made again because its key names one job. A large
one is a resumable upload: when the network or the server fails, it goes on where it was."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import httpx

from bulk_pipelines.client.connection import FIRST_PAUSE, LONGEST_PAUSE, Connection
from bulk_pipelines.client.contents import Content, headers_of
from bulk_pipelines.client.problems import error_of
from bulk_pipelines.errors import BulkError

PART_BYTES = 16 << 20
"""The size of a part. A larger file is sent in parts, of which two are held in memory."""
MAY_PASS = (408, 409)
"""The statuses after which the upload goes on from where the server is: another offset, or a sender that was too
slow."""

Sent = Callable[[int, int | None], None]
"""Is called with how many bytes were sent, and of how many."""
Answer = tuple[dict[str, Any], bool]
"""The job, and whether this request made it."""


def send(
    connection: Connection,
    path: str,
    content: Content,
    options: Mapping[str, Any],
    key: str | None,
    on_sent: Sent,
    *,
    resumable: bool = True,
) -> Answer:
    """Send the content, and return the job that it became."""
    params = {name: value for name, value in options.items() if value is not None}
    headers = {"Idempotency-Key": key or str(uuid.uuid4()), **headers_of(content)}
    parts = parts_of(content)
    part, last = next(parts)
    if last:
        answer = connection.ask("POST", path, again=True, params=params, headers=headers, content=part)
        on_sent(len(part), len(part))
        return job_of(answer)
    if not resumable:
        body = told(part, parts, content, on_sent)
        return job_of(connection.ask("POST", path, params=params, headers=headers, content=body))
    if content.length is not None:
        headers["Upload-Length"] = str(content.length)
    begun = connection.ask("POST", path, params=params, headers={**headers, "Upload-Complete": "?0"}, content=b"")
    if begun.status_code != httpx.codes.CREATED:
        return job_of(begun)  # this key stands for a job already
    upload = Upload(connection, begun.headers["Location"])
    try:
        while not last:
            upload.append(part)
            on_sent(upload.offset, content.length)
            part, last = next(parts)
        answer = upload.end(part)
    except BaseException:
        upload.give_up()
        raise
    on_sent(upload.offset, upload.offset)
    return job_of(answer)


def told(part: bytes, parts: Iterator[tuple[bytes, bool]], content: Content, on_sent: Sent) -> Iterator[bytes]:
    """Yield all parts, and tell how many bytes were sent."""
    sent = 0
    while True:
        yield part
        sent += len(part)
        on_sent(sent, content.length)
        following = next(parts, None)
        if following is None:
            return
        part = following[0]


def job_of(answer: httpx.Response) -> Answer:
    return answer.json(), "Idempotent-Replayed" not in answer.headers


def parts_of(content: Content) -> Iterator[tuple[bytes, bool]]:
    """Yield the content in parts, each with whether it is the last one. An empty content has one empty part."""
    waiting = bytearray()
    for piece in content.pieces:
        waiting += piece
        while len(waiting) > PART_BYTES:
            yield bytes(waiting[:PART_BYTES]), False
            del waiting[:PART_BYTES]
    yield bytes(waiting), True


class Upload:
    """A resumable upload that this client sends."""

    def __init__(self, connection: Connection, address: str) -> None:
        self.connection = connection
        self.address = address
        self.offset = 0
        """How many bytes the server is known to have."""

    def append(self, part: bytes) -> None:
        """Append a part."""
        self.sent(part, last=False)

    def end(self, part: bytes) -> httpx.Response:
        """Append the last part, and return the answer to the whole upload."""
        answer = self.sent(part, last=True)
        assert answer is not None, "the last request is made until it is answered"
        return answer

    def sent(self, part: bytes, *, last: bool) -> httpx.Response | None:
        """Send a part, however often that must be tried, and return the answer. Return None if the answer was lost, but
        the server has the part. Whenever some bytes have arrived, the time for further tries begins anew."""
        start, stop = self.offset, self.offset + len(part)
        deadline, pause = time.monotonic() + self.connection.patience, FIRST_PAUSE
        while True:
            try:
                answer = self.patch(part[self.offset - start :], last=last)
                if answer.is_success:
                    self.offset = stop
                    return answer
                error = error_of(answer)
                if answer.status_code not in MAY_PASS and answer.status_code < 500:
                    raise error
            except httpx.TransportError as broken:
                error = self.connection.unreachable(broken)
            there = self.there()
            if there is None and last:
                # The whole file had arrived, and the answer was lost: the same request is answered again.
                there = self.offset
            if there is None or not start <= there <= stop or time.monotonic() > deadline:
                raise error
            if there > self.offset:
                deadline, pause = time.monotonic() + self.connection.patience, FIRST_PAUSE
            self.offset = there
            if there == stop and not last:
                return None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def patch(self, data: bytes, *, last: bool) -> httpx.Response:
        headers = {
            "Content-Type": "application/partial-upload",
            "Upload-Offset": str(self.offset),
            "Upload-Complete": "?1" if last else "?0",
        }
        return self.connection.once("PATCH", self.address, headers=headers, content=data)

    def there(self) -> int | None:
        """Return how many bytes the server has; None if the upload is over."""
        answer = self.connection.ask("HEAD", self.address)  # this waits until the server is back
        if answer.headers.get("Upload-Complete") == "?1":
            return None
        return int(answer.headers["Upload-Offset"])

    def give_up(self) -> None:
        with suppress(BulkError, httpx.TransportError):
            self.connection.once("DELETE", self.address)
