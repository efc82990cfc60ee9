"""The file of a finished export, to be read by whoever asks for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bulk_pipelines.engine.errors import WrongState
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Gone
from bulk_pipelines.exports.publish import target
from bulk_pipelines.exports.publish.target import Place
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.contract import Entry
from bulk_pipelines.storage.errors import Missing


@dataclass(frozen=True)
class Finished:
    """A file, where it lies, and what its export says of it."""

    place: Place
    entry: Entry
    request: ExportRequest
    sha256: str

    @property
    def name(self) -> str:
        return self.entry.key.rpartition("/")[2]

    def pieces(self, start: int, stop: int, version: str) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `stop`. If the file is not of this version, or is replaced meanwhile,
        this ends with an error."""
        with self.place.storage.open(self.entry.key, start, stop, version) as reader:
            yield from reader

    def signed_address(self) -> str | None:
        """Return an address at which anybody can fetch the file for a while; None where the storage has none."""
        return self.place.storage.signed_address(self.entry.key)


@contextmanager
def opened(job: Job, settings: Settings) -> Iterator[Finished]:
    """Open the file of an export that has completed."""
    result: dict[str, Any] | None = job.result
    if job.status is not JobState.COMPLETED or result is None:
        raise WrongState(job.job_key, job.status, "be downloaded: it has no file")
    request = ExportRequest.from_params(job.params)
    with target.opened(request, job.job_key, settings) as place:
        try:
            entry = place.storage.stat(place.key)
        except Missing:
            raise Gone(f"the file of {job.job_key} is not there any more") from None
        if place.url != result["location"] or entry.size != result["bytes"]:
            raise Gone(f"where the file of {job.job_key} was there is another one, or the exports' folder was changed")
        yield Finished(place, entry, request, str(result["sha256"]))
