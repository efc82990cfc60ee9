"""Jobs of all kinds by a client. Jobs that look rows up are submitted here, too."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any

from bulk_pipelines.client import contents, following, uploading
from bulk_pipelines.client.answers import Item, Job
from bulk_pipelines.client.connection import READ_SECONDS, Connection
from bulk_pipelines.client.following import News
from bulk_pipelines.client.imports import moment, paged, text_of
from bulk_pipelines.client.uploading import Sent

PATH = "/api/jobs"


class Jobs:
    """The jobs of an owner."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def submit(
        self,
        source: Any,
        *,
        recipe: str,
        idempotency_key: str | None = None,
        on_sent: Sent = lambda _, __: None,
        **options: Any,
    ) -> Job:
        """Upload rows that are to be looked up by a recipe, and return their job, which goes on by itself. `source` is
        a path, bytes, a file that is open for reading bytes, or a table. The options are `format`, `compression`,
        `priority` and, for administrators, `owner`."""
        return self.submitted(source, recipe=recipe, idempotency_key=idempotency_key, on_sent=on_sent, **options)[0]

    def submitted(
        self,
        source: Any,
        *,
        recipe: str,
        idempotency_key: str | None = None,
        on_sent: Sent = lambda _, __: None,
        **options: Any,
    ) -> tuple[Job, bool]:
        """Submit as `submit` does, and tell whether this request made the job."""
        given = {name: text_of(value) for name, value in {"recipe": recipe, **options}.items()}
        with contents.opened(source) as content:
            told, made = uploading.send(
                self.connection, PATH, content, given, idempotency_key, on_sent, resumable=False
            )
        return Job.of(told), made

    def follow(self, job_id: str, on_look: Callable[[Job], None] = lambda _: None, seconds: float | None = None) -> Job:
        """Wait for the end of a job. `on_look` is called with each look at it."""
        return following.follow(News(self.connection, job_id), partial(self.get, job_id), on_look, seconds)

    def get(self, job_id: str) -> Job:
        return Job.of(self.connection.json("GET", f"{PATH}/{job_id}"))

    def list(
        self,
        *,
        status: Sequence[str] = (),
        job_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        owner: str | None = None,
        size: int | None = None,
    ) -> Iterator[Job]:
        """Yield jobs, the newest first. `size` says how many are fetched at once."""
        params = {
            "status": ",".join(status) or None,
            "jobType": job_type,
            "from": moment(since),
            "to": moment(until),
            "owner": owner,
            "pageSize": size,
        }
        for each in paged(self.connection, PATH, "jobs", params):
            yield Job.of(each)

    def items(self, job_id: str, *, statuses: Sequence[str] = (), sort: str | None = None) -> Iterator[Item]:
        """Yield the items of a job with their rows of the grid. Those that changed last come last; `sort="row"` gives
        the order of the source."""
        params = {"statuses": ",".join(statuses) or None, "sort": sort}
        for each in paged(self.connection, f"{PATH}/{job_id}/items", "items", params):
            yield Item.of(each)

    def pending(
        self,
        *,
        statuses: Sequence[str] = (),
        user: str | None = None,
        job_type: str | None = None,
        job_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Item]:
        """Yield items of all jobs, without `statuses` those that wait or are worked. Administrators may name `all` or
        an owner as `user`."""
        params = {
            "statuses": ",".join(statuses) or None,
            "userId": user,
            "jobType": job_type,
            "jobId": job_id,
            "from": moment(since),
            "to": moment(until),
        }
        for each in paged(self.connection, "/api/pending", "items", params):
            yield Item.of(each)

    def pause(self, job_id: str) -> Job:
        return Job.of(self.connection.json("POST", f"{PATH}/{job_id}/pause", again=True))

    def resume(self, job_id: str) -> Job:
        return Job.of(self.connection.json("POST", f"{PATH}/{job_id}/resume", again=True))

    def cancel(self, job_id: str) -> Job:
        return Job.of(self.connection.json("POST", f"{PATH}/{job_id}/cancel", again=True))

    def kick_off(self, job_id: str, seconds: float = 5.0) -> dict[str, Any]:
        """Have the server work a job for some seconds, and return the job with what the slice did."""
        params = {"durationMs": round(seconds * 1_000)}
        timeout = READ_SECONDS + seconds
        told: dict[str, Any] = self.connection.json("POST", f"{PATH}/{job_id}/kickoff", params=params, timeout=timeout)
        return told

    def reprocess(self, job_id: str, **chosen: Any) -> int:
        """Try items again, and return how many. The conditions `statuses`, `itemIds`, `where`, `error` and `errorClass`
        choose them; all of them must hold. `variants`, `resetAttempts` and `dryRun` say how they are tried."""
        scope = "items" if "itemIds" in chosen else "job"
        told = self.connection.json("POST", f"{PATH}/{job_id}/reprocess", json={"scope": scope, **chosen})
        return int(told["items"])

    def export(self, job_id: str, form: str = "xlsx") -> AbstractContextManager[Iterator[bytes]]:
        """Open the grid of a job as a file: `xlsx`, `csv` or `parquet`."""
        return self.connection.stream("POST", f"{PATH}/{job_id}/export", params={"format": form})
