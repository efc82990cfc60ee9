"""Imports by a client."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any

from bulk_pipelines.client import contents, following, uploading
from bulk_pipelines.client.answers import Import, Preview, RecordError, Undone
from bulk_pipelines.client.connection import Connection
from bulk_pipelines.client.following import News
from bulk_pipelines.client.uploading import Sent
from bulk_pipelines.errors import InvalidInput

PATH = "/v1/imports"


class Imports:
    """The imports of an owner. `source` is a path, bytes, a file that is open for reading bytes, or a table of pyarrow,
    pandas, polars or another library that speaks Arrow. An import may also have a list of paths."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def run(
        self,
        source: Any,
        *,
        resource: str | None = None,
        on_sent: Sent = lambda _, __: None,
        on_look: Callable[[Import], None] = lambda _: None,
        seconds: float | None = None,
        **options: Any,
    ) -> Import:
        """Submit an import as `submit` does, follow it to its end, and return it as it ended."""
        job_id = self.submit(source, resource=resource, on_sent=on_sent, **options).job_id
        return self.follow(job_id, on_look, seconds)

    def submit(
        self,
        source: Any,
        *,
        resource: str | None = None,
        idempotency_key: str | None = None,
        on_sent: Sent = lambda _, __: None,
        **options: Any,
    ) -> Import:
        """Upload a file, several files or a table, and return the import, which goes on by itself. Large contents are
        sent as a resumable upload. The options are `mode`, `match_on`, `on_error`, `validate_only`, `format`,
        `compression`, `priority`, and those that tell how a file is read (`delimiter`, `dates` …). Administrators may
        also give `owner`, and `table` in place of a resource."""
        return self.submitted(source, resource=resource, idempotency_key=idempotency_key, on_sent=on_sent, **options)[0]

    def submitted(
        self,
        source: Any,
        *,
        resource: str | None = None,
        idempotency_key: str | None = None,
        on_sent: Sent = lambda _, __: None,
        **options: Any,
    ) -> tuple[Import, bool]:
        """Submit as `submit` does, and tell whether this request made the import."""
        given = {name: text_of(value) for name, value in {"resource": resource, **options}.items()}
        with contents.opened_together(source) as content:
            if content.several and given.get("compression"):
                raise InvalidInput("compression", "is recognised of each of several files: leave it out")
            told, made = uploading.send(self.connection, PATH, content, given, idempotency_key, on_sent)
        return Import.of(told), made

    def submit_address(self, url: str | list[str], *, resource: str | None = None, **options: Any) -> Import:
        """Submit an import of files that the server fetches from their addresses."""
        key = options.pop("idempotency_key", None)
        told = {"resource": resource, "url": url, **options}
        body = {name: value for name, value in told.items() if value is not None}
        headers = {} if key is None else {"Idempotency-Key": key}
        return Import.of(self.connection.json("POST", PATH, again=key is not None, json=body, headers=headers))

    def follow(
        self, job_id: str, on_look: Callable[[Import], None] = lambda _: None, seconds: float | None = None
    ) -> Import:
        """Wait for the end of an import. `on_look` is called with each look at it."""
        return following.follow(News(self.connection, job_id), partial(self.get, job_id), on_look, seconds)

    def get(self, job_id: str) -> Import:
        return Import.of(self.connection.json("GET", f"{PATH}/{job_id}"))

    def list(
        self,
        *,
        status: str | None = None,
        resource_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Import]:
        """Yield imports, the newest first."""
        params = {"status": status, "resource_type": resource_type, "from": moment(since), "to": moment(until)}
        for each in paged(self.connection, PATH, "imports", params):
            yield Import.of(each)

    def errors(self, job_id: str) -> Iterator[RecordError]:
        """Yield all rejects of an import, in the order of the file."""
        for each in paged(self.connection, f"{PATH}/{job_id}/errors", "errors", {}):
            yield RecordError.of(each)

    def download_errors(self, job_id: str, form: str = "csv") -> AbstractContextManager[Iterator[bytes]]:
        """Open all rejects as one file, `csv` or `ndjson`."""
        return self.connection.stream("GET", f"{PATH}/{job_id}/errors", params={"format": form})

    def download_records(
        self, job_id: str, outcome: str, file: int | None = None
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Open the records whose outcome is `successful`, `failed` or `unprocessed`, as they stood in the file."""
        params = {} if file is None else {"file": file}
        return self.connection.stream("GET", f"{PATH}/{job_id}/records/{outcome}", params=params)

    def cancel(self, job_id: str) -> Import:
        return Import.of(self.connection.json("POST", f"{PATH}/{job_id}/cancel", again=True))

    def replay(
        self,
        job_id: str,
        source: Any = None,
        *,
        idempotency_key: str | None = None,
        on_sent: Sent = lambda _, __: None,
    ) -> Import:
        """Run the rejects of an import again, as an import of its own; each import has one such replay. With a
        `source`, import the records in it, which somebody has mended; this can be done as often as need be."""
        path = f"{PATH}/{job_id}/replay"
        if source is None:
            return Import.of(self.connection.json("POST", path, again=True))
        with contents.opened(source) as content:
            told, _ = uploading.send(self.connection, path, content, {}, idempotency_key, on_sent, resumable=False)
        return Import.of(told)

    def preview(self, source: Any, *, resource: str | None = None, **options: Any) -> Preview:
        """Return how a file or a table would be read, what would be rejected, and which options are needed, without
        importing it. The options are those of `submit`. Only the beginning of a large text is sent."""
        with contents.opened(source) as content:
            data, cut = contents.beginning(content)
        given = {name: text_of(value) for name, value in {"resource": resource, "cut": cut, **options}.items()}
        params = {name: value for name, value in given.items() if value is not None}
        headers = contents.headers_of(content)
        told = self.connection.json("POST", f"{PATH}/preview", again=True, params=params, headers=headers, content=data)
        return Preview.of(told)

    def undo(self, job_id: str, *, dry_run: bool = False) -> Undone:
        """Remove the rows that an import added, or with `dry_run` only count them."""
        return Undone.of(self.connection.json("POST", f"{PATH}/{job_id}/undo", params={"dry_run": text_of(dry_run)}))


def text_of(value: Any) -> str | None:
    """Return a value as it stands in an address."""
    if value is None:
        return None
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def paged(connection: Connection, path: str, name: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the entries of all pages of a list."""
    given = {key: value for key, value in params.items() if value is not None}
    while True:
        page = connection.json("GET", path, params=given)
        yield from page[name]
        if page["next"] is None:
            return
        given["after"] = page["next"]
