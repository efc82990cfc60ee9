"""One look at a source: list it, note what is there, take what is complete. Repeating it or cutting it is safe."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Protocol

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import groups, ledger
from bulk_pipelines.drops.ledger import Complete, Completeness, Stalled
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.errors import BulkError
from bulk_pipelines.storage.contract import Entry, Storage

Connection = psycopg.Connection[Any]

TEMPORARY = re.compile(r"(^|/)[.~][^/]*$|\.(part|partial|tmp|temp|filepart|crdownload|swp)$|~$", re.IGNORECASE)
NOTED_AT_A_TIME = 1_000
TAKEN_AT_A_TIME = 5_000
LOOK_SECONDS = 30.0
"""A look that takes longer stops listing, and says so: Dagster gives a tick a minute."""
FIRST_DELAY = 5.0
LONGEST_DELAY = 600.0


File = tuple[str, int, str, list[str]]
"""Its address, its size, the version that is taken, and the contents (SHA-256) that were imported from there before."""


class Submit(Protocol):
    """Submits one import, in the transaction that takes its files; returns the job's id and key."""

    def __call__(
        self, connection: Connection, source: str, files: Sequence[File], **rule: str | None
    ) -> tuple[int, str]:
        """`rule`: resource, format, mode and on_error."""
        ...


@dataclass(frozen=True)
class Looked:
    """What a look came to, for the people who read a tick."""

    source: str
    seen: int = 0
    watched: int = 0
    temporary: int = 0
    unmatched: int = 0
    behind_earlier: int = 0
    behind_needed: int = 0
    left_over: int = 0
    jobs: tuple[str, ...] = ()
    taken: int = 0
    vanished: tuple[str, ...] = ()
    stalled: tuple[Stalled, ...] = ()
    cut_short: bool = False
    skipped: str | None = None

    def __str__(self) -> str:
        if self.skipped:
            return f"{self.source}: {self.skipped}"
        parts = [f"{self.seen} files seen", f"{self.taken} taken"]
        if self.jobs:
            parts.append(f"as {', '.join(self.jobs)}")
        complete = self.taken + self.behind_earlier + self.behind_needed + self.left_over
        left = {
            "not complete yet": self.watched - complete,
            "waiting for the import of their earlier version": self.behind_earlier,
            "waiting for files that they refer to": self.behind_needed,
            "left for the next look": self.left_over,
            "dealt with before": self.seen - self.watched,
            "with temporary names": self.temporary,
            "that no rule is for": self.unmatched,
        }
        parts += [f"{count} {why}" for why, count in left.items() if count > 0]
        parts += [f"{path} went away" for path in self.vanished]
        parts += [f"{each.path} has been arriving for {each.age_seconds / 60:.0f} minutes" for each in self.stalled]
        if self.cut_short:
            parts.append("the listing took too long and was cut short")
        return f"{self.source}: {', '.join(parts)}"


@dataclass(frozen=True)
class Listed:
    began: datetime
    looked: Looked
    markers: dict[str, datetime | None]
    """When each marker was written, by the file it is for."""


@dataclass(frozen=True)
class Moments:
    """The time of a look."""

    deadline: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    @property
    def left(self) -> float:
        return self.deadline - self.clock()


def look(
    pool: Engine,
    source: DropSource,
    open_storage: Callable[[], Storage],
    submit: Submit,
    references: Mapping[str, Sequence[str]],
    seconds: float = LOOK_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Looked:
    """It ends about `seconds` after its begin, however many files there are."""
    moments = Moments(clock() + seconds, clock, sleep)
    with transaction(pool) as guard:
        if not ledger.lock(guard, source.name):
            return Looked(source.name, skipped="another daemon is looking at it")
        answering = ledger.answering(guard, source.name)
        if answering.wait_seconds > 0:
            return Looked(source.name, skipped=f"{answering.last_error}; next look in {answering.wait_seconds:.0f} s")
        try:
            with open_storage() as storage:
                looked = take_what_is_complete(pool, source, storage, submit, references, moments)
        except BulkError as error:
            delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(answering.failures, 20))
            ledger.note_answer(guard, source.name, str(error), delay)
            return Looked(source.name, skipped=f"{error}; next look in {delay:.0f} s")
        ledger.note_answer(guard, source.name, None, 0.0)
        return looked


def take_what_is_complete(
    pool: Engine,
    source: DropSource,
    storage: Storage,
    submit: Submit,
    references: Mapping[str, Sequence[str]],
    moments: Moments,
) -> Looked:
    left = moments.left
    listed = list_files(pool, source, storage, moments)
    # A second listing that is cut short would see less than the first.
    time_for_another = moments.left > source.settle_seconds + (left - moments.left)
    if listed.looked.watched and source.marker is None and time_for_another:
        # The second look at what is new: nobody has to wait for the next tick.
        moments.sleep(source.settle_seconds)
        listed = list_files(pool, source, storage, moments)
    jobs, complete = take(pool, source, listed, storage.url_of, submit, references)
    with transaction(pool) as connection:
        vanished = []
        if not listed.looked.cut_short:
            vanished = ledger.forget_unseen(connection, source.name, listed.began)
            ledger.note_whole_look(connection, source.name, listed.began)
        stalled = ledger.stalled(connection, source.name, source.stalled_seconds)
    return replace(
        listed.looked,
        jobs=tuple(jobs),
        taken=len(complete.files),
        behind_earlier=complete.behind_earlier,
        behind_needed=complete.behind_needed,
        left_over=complete.left_over,
        vanished=tuple(vanished),
        stalled=tuple(stalled),
    )


def list_files(pool: Engine, source: DropSource, storage: Storage, moments: Moments) -> Listed:
    """Everything that is there, into the ledger, a bounded number at a time."""
    with transaction(pool) as connection:
        began = ledger.moment(connection)
    looked = Looked(source.name)
    markers: dict[str, datetime | None] = {}
    entries = storage.entries()
    while batch := list(islice(entries, NOTED_AT_A_TIME)):
        files, others = [], []
        for entry in own_files(source, batch):
            if source.marker and entry.key.endswith(source.marker):
                markers[entry.key.removesuffix(source.marker)] = entry.modified
            elif TEMPORARY.search(entry.key):
                looked = replace(looked, temporary=looked.temporary + 1)
            elif (rule := source.rule_for(entry.key)) is None:
                looked = replace(looked, unmatched=looked.unmatched + 1)
                others.append(entry)
            else:
                files.append((entry, rule.resource))
        with transaction(pool) as connection:
            watched = ledger.note_files(connection, source.name, files)
            if others:
                ledger.note_present(connection, source.name, others)
        looked = replace(looked, seen=looked.seen + len(files), watched=looked.watched + watched)
        if moments.left < 0:
            looked = replace(looked, cut_short=True)
            break
    return Listed(began, looked, markers)


def own_files(source: DropSource, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Without those that were put aside here before."""
    aside = tuple(f"{folder}/" for folder in (source.done_folder, source.failed_folder) if folder)
    return (entry for entry in entries if not entry.key.startswith(aside))


def take(
    pool: Engine,
    source: DropSource,
    listed: Listed,
    url_of: Callable[[str], str],
    submit: Submit,
    references: Mapping[str, Sequence[str]],
) -> tuple[list[str], Complete]:
    """Submit the imports of all complete files and mark the files as taken: one transaction, both or neither."""
    markers = listed.markers if source.marker else None
    needs = {each: sorted(groups.needed_by(each, references)) for each in groups.needed_order(references)}
    completeness = Completeness(source.settle_seconds, source.stalled_seconds, markers)
    keys: list[str] = []
    with transaction(pool) as connection:
        complete = ledger.complete(connection, source.name, listed.began, completeness, needs, TAKEN_AT_A_TIME)
        for group in groups.grouped(source, complete.files, list(needs)):
            earlier = ledger.unfinished_jobs(connection, source.name, needs[group.rule.resource])
            files_of_job = [
                (source.import_address(url_of(file.path)), file.size, file.version, file.known_sha256)
                for file in group.files
            ]
            rule = {key: value for key, value in vars(group.rule).items() if key != "glob"}
            job_id, job_key = submit(connection, source.name, files_of_job, **rule)
            ledger.take(connection, [file.drop_id for file in group.files], job_id, earlier)
            keys.append(job_key)
    return keys, complete
