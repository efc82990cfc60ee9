"""Working the one item of an export: its file, written from the start at every try and published once.

What must never happen is that two tries publish, or that a cancelled job does. So the lease is held from when
everything is written until the file has its name; and what is about to be published is noted before. Who tries again
after a publication that nobody lived to tell of finds the note and the file, and takes both as they are.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine import jobs
from bulk_pipelines.engine.leases import Lease
from bulk_pipelines.engine.outcomes import Done, Outcome, Unfinished
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.engine.tools import Tools
from bulk_pipelines.errors import Cancelled, NotFound
from bulk_pipelines.exports import progress, target
from bulk_pipelines.exports.asked import Asked
from bulk_pipelines.exports.listening import SAID
from bulk_pipelines.exports.progress import Progress
from bulk_pipelines.exports.streaming import Tally
from bulk_pipelines.exports.target import Place
from bulk_pipelines.exports.writing import ExportResult, write
from bulk_pipelines.storage.errors import SourceChanged

TELL_SECONDS = 0.5
"""Between two notes of how far the export is."""
LOOK_SECONDS = 1.0
"""Between two looks at whether it is still wanted."""
ABANDONED = timedelta(days=1)
"""After so long without a byte, an unfinished file beside one that anybody may write is nobody's."""
REPLACES = "replaces"
"""In the note of what is about to be published: that it takes the place of an earlier file."""
PREVIEW_ROWS = 10
PREVIEW_CHARACTERS = 200


def handle(lease: Lease, tools: Tools) -> Outcome:
    asked = Asked.parse(tools.job.params)
    with target.opened(asked.to, asked.request, tools.job.job_key, settings.current()) as place:
        if lease.attempt_count > 1:
            result = published_before(place, tools)
            if result is not None:
                return Done(result)
            sweep(place)
        attempt = Attempt(lease, tools, place)
        try:
            written = write(
                tools.pool,
                asked.request,
                place.storage,
                place.key,
                cancelled=attempt.called_off,
                progress=attempt.tell,
                publishing=attempt.publishing,
                preview=PREVIEW_ROWS,
            )
        except Cancelled:
            return Unfinished()
    return Done(as_json(written))


class Attempt:
    """One try: tells how far it is, and holds its lease while it publishes."""

    def __init__(self, lease: Lease, tools: Tools, place: Place, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease = lease
        self.tools = tools
        self.place = place
        self.clock = clock
        self.told = -TELL_SECONDS
        self.looked = clock()
        self.off = False
        self.tally = Tally()

    def tell(self, tally: Tally) -> None:
        self.tally = tally
        if self.clock() - self.told >= TELL_SECONDS:
            self.told = self.clock()
            self.save(None)

    def save(self, written: dict[str, Any] | None) -> None:
        now = Progress(self.tally.rows, self.tally.bytes, self.tally.expected_rows, written)
        with transaction(self.tools.pool) as connection:
            progress.save(connection, self.lease, now)

    def called_off(self) -> bool:
        """By a pause or a cancel. That a run's time is over is no reason: the next one would begin from the start."""
        if not self.off and self.clock() - self.looked >= LOOK_SECONDS:
            with transaction(self.tools.pool) as connection:
                self.off = jobs.find(connection, self.tools.job.job_key).status is not JobState.RUNNING
            self.looked = self.clock()
        return self.off

    @contextmanager
    def publishing(self, result: ExportResult) -> Iterator[None]:
        self.save(as_json(result) | {REPLACES: is_taken(self.place)})
        with transaction(self.tools.pool) as connection:
            self.tools.hold(connection, self.lease)
            if jobs.find(connection, self.tools.job.job_key).status is not JobState.RUNNING:
                raise Cancelled(SAID)
            yield


def is_taken(place: Place) -> bool:
    """Whether a file of that name is there already, which nobody can bring back once it is replaced."""
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
    """A cell of the preview: a job keeps it, and the rest of it is in the file."""
    if isinstance(value, list):
        return [shortened(each) for each in value[:PREVIEW_ROWS]]
    if not isinstance(value, str) or len(value) <= PREVIEW_CHARACTERS:
        return value
    return value[: PREVIEW_CHARACTERS - 1] + "…"


def published_before(place: Place, tools: Tools) -> dict[str, Any] | None:
    """What a try before this one published, if it died before it could say so."""
    with transaction(tools.pool) as connection:
        found = progress.read(connection, tools.job.job_id)
    return found.written if found is not None and written_version(place, found) else None


def written_version(place: Place, found: Progress) -> str | None:
    """The version of the file that is there, if it is the one that was about to be published."""
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
    """What killed tries left unfinished."""
    place.storage.sweep(datetime.now(UTC) - (timedelta(0) if place.is_ours else ABANDONED), of=place.key)
