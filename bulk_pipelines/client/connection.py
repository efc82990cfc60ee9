"""Requests to the API. When the network or the server fails for a moment, a request that may safely be made twice is
made again."""

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from bulk_pipelines.client.problems import body_of, error_of
from bulk_pipelines.errors import BulkError, InvalidInput, Unavailable

PATIENT_SECONDS = 60.0
"""The longest time for which a request is tried again."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
PASSING = (502, 503, 504)
CONNECT_SECONDS, READ_SECONDS = 10.0, 120.0


class Connection:
    """The API at one address, as the owner of a key."""

    def __init__(self, server: str, key: str | None = None, patience: float = PATIENT_SECONDS) -> None:
        if not server.startswith(("http://", "https://")):
            raise InvalidInput("server", f"{server!r} is not an address such as https://bulk.example.org")
        self.server = server.rstrip("/")
        self.patience = patience
        self.http = httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        )

    def close(self) -> None:
        self.http.close()

    def json(self, method: str, path: str, *, again: bool | None = None, **options: Any) -> Any:
        """Return the JSON of an answer; raise the error that it stands for."""
        return self.ask(method, path, again=again, **options).json()

    def ask(self, method: str, path: str, *, again: bool | None = None, **options: Any) -> httpx.Response:
        """Return the answer to a request. `again` says whether the request may be made twice; if it is None, GET and
        HEAD may."""
        retried = method in ("GET", "HEAD") if again is None else again
        deadline = time.monotonic() + (self.patience if retried else 0.0)
        pause = FIRST_PAUSE
        failure: BulkError
        while True:
            wait = 0.0
            try:
                answer = self.once(method, path, **options)
                if answer.is_success:
                    return answer
                failure, passing = error_of(answer), worth_another_try(answer)
                wait = getattr(failure, "retry_after", None) or 0.0
            except httpx.TransportError as error:
                failure, passing = self.unreachable(error), True
            if not (retried and passing) or time.monotonic() + max(pause, wait) > deadline:
                raise failure
            time.sleep(max(pause * random.uniform(0.5, 1.0), wait))  # noqa: S311 - it only spreads the tries
            pause = min(2 * pause, LONGEST_PAUSE)

    def once(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Make one request. The caller handles its errors, and answers that are no success."""
        return self.http.request(method, self.server + path, **options)

    @contextmanager
    def stream(self, method: str, path: str, **options: Any) -> Iterator[Iterator[bytes]]:
        """Yield the pieces of an answer as they come. Raise `Unavailable` if the answer breaks off. A file on S3 is
        fetched from there, without the key in the request."""
        try:
            with self.http.stream(method, self.server + path, follow_redirects=True, **options) as answer:
                if not answer.is_success:
                    answer.read()
                    raise error_of(answer)
                yield answer.iter_bytes()
        except httpx.TransportError as error:
            raise self.unreachable(error) from None

    @contextmanager
    def lines(self, path: str, headers: Mapping[str, str], timeout: httpx.Timeout) -> Iterator[Iterator[str]]:
        """Yield the lines of an answer as they come. The caller handles errors of the network."""
        with self.http.stream("GET", self.server + path, headers=headers, timeout=timeout) as answer:
            if not answer.is_success:
                answer.read()
                raise error_of(answer)
            yield answer.iter_lines()

    def unreachable(self, error: httpx.TransportError) -> Unavailable:
        return Unavailable(f"{self.server}: {error or type(error).__name__}")


def worth_another_try(answer: httpx.Response) -> bool:
    return answer.status_code in PASSING or body_of(answer).get("type") == "/problems/in-flight"
