"""Working the one item of an export. Every try writes the file from the start, and the file is published once.

Two tries must never both publish the file, and a cancelled job must never publish it. So a try holds its lease from
when everything is written until the file has its name, and before that it notes in the database what it is about to
publish. If its process dies after publishing and before settling the item, the next try finds the note and the file,
and takes both as they are.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.measures import catalogue, recording
from bulk_pipelines.engine.outcomes import Done, Outcome, Unfinished
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.errors import Cancelled, NotFound
from bulk_pipelines.exports import progress
from bulk_pipelines.exports.progress import Progress
from bulk_pipelines.exports.publish import target
from bulk_pipelines.exports.publish.target import Place
from bulk_pipelines.exports.publish.writing import ExportResult, write
from bulk_pipelines.exports.read.listening import SAID
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.exports.streaming import Tally
from bulk_pipelines.storage.errors import SourceChanged

TELL_SECONDS = 0.5
"""Seconds between two notes of how far the export has come."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at whether the export is still wanted."""
ABANDONED = timedelta(days=1)
"""An unfinished file that has not grown for so long counts as left behind by a killed writer. This is for a name that
was given, under which other programs may write too."""
REPLACES = "replaces"
"""The field in the note of what is about to be published that says whether it replaces an earlier file."""
PREVIEW_ROWS = 10
PREVIEW_CHARACTERS = 200


class Point(Enum):
    """The points of a try, and of winding up, at which a test can do something, or let the process die."""

    BEGUN = auto()
    """Nothing has been done yet."""
    NOTED = auto()
    """What is about to be published is noted, and the file does not have its name yet."""
    PUBLISHED = auto()
    """The file has its name, and the item is not settled yet."""
    RECOGNISED = auto()
    """Whoever winds up has found that the file is this export's, and has not removed it yet."""


def unheard(_: Point) -> None:
    """Nobody waits for any point."""


def handle(lease: Lease, tools: Tools, reached: Callable[[Point], None] = unheard) -> Outcome:
    """Work the item. `reached` is called at each point of the try."""
    reached(Point.BEGUN)
    request = ExportRequest.from_params(tools.job.params)
    with target.opened(request, tools.job.job_key, settings.current()) as place:
        if lease.attempt_count > 1:
            result = published_before(place, tools)
            if result is not None:
                return Done(result)
            sweep(place)
        attempt = Attempt(lease, tools, place, reached)
        try:
            written = write(
                tools.pool,
                request,
                place.storage,
                place.key,
                cancelled=attempt.called_off,
                progress=attempt.tell,
                publishing=attempt.publishing,
                preview=PREVIEW_ROWS,
            )
        except Cancelled:
            return Unfinished()
        reached(Point.PUBLISHED)
    recording.of(tools.pool).count(catalogue.ROWS, tools.job.kind, "exported", by=written.rows)
    return Done(as_json(written))


class Attempt:
    """One try at an export. It notes how far it has come, and holds its lease while it publishes."""

    def __init__(
        self,
        lease: Lease,
        tools: Tools,
        place: Place,
        reached: Callable[[Point], None],
    ) -> None:
        self.lease = lease
        self.tools = tools
        self.place = place
        self.reached = reached
        self.told = -TELL_SECONDS
        self.looked = time.monotonic()
        self.off = False
        self.tally = Tally()

    def tell(self, tally: Tally) -> None:
        self.tally = tally
        if time.monotonic() - self.told >= TELL_SECONDS:
            self.told = time.monotonic()
            self.save(None)

    def save(self, written: dict[str, Any] | None) -> None:
        now = Progress(self.tally.rows, self.tally.bytes, self.tally.expected_rows, written)
        with transaction(self.tools.pool) as connection:
            progress.save(connection, self.lease, now)

    def called_off(self) -> bool:
        """Whether the job was paused or cancelled. That a run's time is over does not stop a try, because the next one
        would begin from the start."""
        if not self.off and time.monotonic() - self.looked >= LOOK_SECONDS:
            with transaction(self.tools.pool) as connection:
                self.off = jobs.find(connection, self.tools.job.job_key).status is not JobState.RUNNING
            self.looked = time.monotonic()
        return self.off

    @contextmanager
    def publishing(self, result: ExportResult) -> Iterator[None]:
        self.save(as_json(result) | {REPLACES: is_taken(self.place)})
        self.reached(Point.NOTED)
        with transaction(self.tools.pool) as connection:
            self.tools.hold(connection, self.lease)
            if jobs.find(connection, self.tools.job.job_key).status is not JobState.RUNNING:
                raise Cancelled(SAID)
            yield


def is_taken(place: Place) -> bool:
    """Whether the export is going to replace a file of that name, which nobody can bring back afterwards."""
    if place.is_ours:
        return False
    try:
        place.storage.stat(place.key)
    except NotFound:
        return False
    return True


def as_json(result: ExportResult) -> dict[str, Any]:
    return {
        "rows": result.rows,
        "bytes": result.bytes,
        "sha256": result.sha256,
        "location": result.location,
        "duration": round(result.duration, 3),
        "rows_per_second": round(result.rows_per_second, 1),
        "preview": [{name: shortened(value) for name, value in record.items()} for record in result.preview],
    }


def shortened(value: Any) -> Any:
    """Shorten a cell of the preview, because the job keeps it; the file has all of it."""
    if isinstance(value, list):
        return [shortened(each) for each in value[:PREVIEW_ROWS]]
    if not isinstance(value, str) or len(value) <= PREVIEW_CHARACTERS:
        return value
    return value[: PREVIEW_CHARACTERS - 1] + "…"


def published_before(place: Place, tools: Tools) -> dict[str, Any] | None:
    """Return the description of the file that an earlier try published, if that try died before it settled the item;
    else None."""
    with transaction(tools.pool) as connection:
        found = progress.read(connection, tools.job.job_id)
    return found.written if found is not None and written_version(place, found) else None


def written_version(place: Place, found: Progress) -> str | None:
    """Return the version of the file that lies at the place, if it has the bytes that an earlier try noted before
    publishing; else None."""
    if found.written is None:
        return None
    try:
        entry = place.storage.stat(place.key)
        if entry.size != found.written["bytes"]:
            return None
        digest = hashlib.sha256()
        with place.storage.open(place.key, version=entry.version) as reader:
            for piece in reader:
                digest.update(piece)
    except (NotFound, SourceChanged):
        return None
    return entry.version if digest.hexdigest() == str(found.written["sha256"]) else None


def sweep(place: Place) -> None:
    """Remove the unfinished files that killed tries left."""
    place.storage.sweep(datetime.now(UTC) - (timedelta(0) if place.is_ours else ABANDONED), of=place.key)
