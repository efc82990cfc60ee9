"""Exports by a client."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from bulk_pipelines.client import following
from bulk_pipelines.client.answers import Export
from bulk_pipelines.client.connection import Connection
from bulk_pipelines.client.following import News
from bulk_pipelines.client.imports import paged, text_of

PATH = "/v1/exports"


class Exports:
    """The exports of an owner. The options of an export are `format`, `fields`, `where`, `filters`, `order`,
    `compression` and `escape_formulas`; administrators may name a `table` in place of a resource."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def stream(self, resource: str | None = None, **options: Any) -> AbstractContextManager[Iterator[bytes]]:
        """Open the rows as they are now. They come in pieces of bytes; if the answer breaks off, `Unavailable` is
        raised."""
        given = {"resource": resource, **options}
        given |= {name: ",".join(given[name]) for name in ("fields", "order") if isinstance(given.get(name), list)}
        params = {
            name: value if name == "where" else text_of(value) for name, value in given.items() if value is not None
        }
        return self.connection.stream("GET", PATH, params=params)

    def run(
        self,
        resource: str | None = None,
        *,
        on_look: Callable[[Export], None] = lambda _: None,
        seconds: float | None = None,
        **options: Any,
    ) -> Export:
        """Submit an export as `submit` does, follow it to its end, and return it as it ended."""
        return self.follow(self.submit(resource, **options).job_id, on_look, seconds)

    def submit(self, resource: str | None = None, *, idempotency_key: str | None = None, **options: Any) -> Export:
        """Submit an export as a job, whose file is published whole. Besides the options of an export there are
        `priority` and, for administrators, `to`."""
        return self.submitted(resource, idempotency_key=idempotency_key, **options)[0]

    def submitted(
        self, resource: str | None = None, *, idempotency_key: str | None = None, **options: Any
    ) -> tuple[Export, bool]:
        """Submit as `submit` does, and tell whether this request made the export."""
        body = {name: value for name, value in {"resource": resource, **options}.items() if value is not None}
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        answer = self.connection.ask("POST", PATH, again=idempotency_key is not None, json=body, headers=headers)
        return Export.of(answer.json()), "Idempotent-Replayed" not in answer.headers

    def follow(
        self, job_id: str, on_look: Callable[[Export], None] = lambda _: None, seconds: float | None = None
    ) -> Export:
        """Wait for the end of an export. `on_look` is called with each look at it."""
        return following.follow(News(self.connection, job_id), partial(self.get, job_id), on_look, seconds)

    def get(self, job_id: str) -> Export:
        return Export.of(self.connection.json("GET", f"{PATH}/{job_id}"))

    def list(self, *, status: str | None = None, resource_type: str | None = None) -> Iterator[Export]:
        """Yield exports, the newest first."""
        for each in paged(self.connection, PATH, "exports", {"status": status, "resource_type": resource_type}):
            yield Export.of(each)

    def download(self, job_id: str) -> AbstractContextManager[Iterator[bytes]]:
        """Open the file of an export that has completed."""
        return self.connection.stream("GET", f"{PATH}/{job_id}/download")

    def cancel(self, job_id: str) -> Export:
        return Export.of(self.connection.json("POST", f"{PATH}/{job_id}/cancel", again=True))
