"""Distributions by a client: one file for each of many inputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from bulk_pipelines.client import following
from bulk_pipelines.client.answers import Distribution
from bulk_pipelines.client.connection import Connection
from bulk_pipelines.client.following import News
from bulk_pipelines.client.imports import paged

PATH = "/jobs"


class Distributions:
    """The distributions of an owner. An input has `indexKey`, `effectiveDate` (20240202) and `asofindicator`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def submit(
        self, inputs: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None, priority: int = 0
    ) -> str:
        """Submit up to 100,000 inputs, and return the key of their job. If one input is wrong, none is submitted."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        told = self.connection.json(
            "POST",
            PATH,
            again=idempotency_key is not None,
            json={"inputs": [dict(each) for each in inputs]},
            params={"priority": priority},
            headers=headers,
        )
        return str(told["jobId"])

    def get(self, job_id: str, *, size: int | None = None, after: str | None = None) -> Distribution:
        """Return the counts of a job and a page of its files."""
        given = {"pageSize": size, "after": after}
        params = {name: value for name, value in given.items() if value is not None}
        return Distribution.of(self.connection.json("GET", f"{PATH}/{job_id}", params=params))

    def files(self, job_id: str) -> Iterator[dict[str, Any]]:
        """Yield the files of a job: each input with its `s3Path`."""
        return paged(self.connection, f"{PATH}/{job_id}", "dataContent", {})

    def follow(
        self,
        job_id: str,
        on_look: Callable[[Distribution], None] = lambda _: None,
        seconds: float | None = None,
    ) -> Distribution:
        """Wait for the end of a job. `on_look` is called with each look at it."""
        look = partial(self.get, job_id, size=10)
        return following.follow(News(self.connection, job_id), look, on_look, seconds)
