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
from bulk_pipelines.drops.ledger import Ready, Stalled
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


File = tuple[str, int, list[str]]
"""Its address, its size, and the contents (SHA-256) that were imported from there before."""


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
        if self.watched > self.taken:
            parts.append(f"{self.watched - self.taken} not complete yet")
        if self.temporary:
            parts.append(f"{self.temporary} with temporary names")
        if self.unmatched:
            parts.append(f"{self.unmatched} that no rule is for")
        parts += [f"{path} went away" for path in self.vanished]
        parts += [f"{each.path} has been arriving for {each.age_seconds / 60:.0f} minutes" for each in self.stalled]
        if self.cut_short:
            parts.append("the listing took too long and was cut short")
        return f"{self.source}: {', '.join(parts)}"


@dataclass(frozen=True)
class Listed:
    began: datetime
    looked: Looked
    markers: frozenset[str]


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
    listed = list_files(pool, source, storage, moments)
    if listed.looked.watched and source.marker is None and moments.left > source.settle_seconds:
        # The second look at what is new: nobody has to wait for the next tick.
        moments.sleep(source.settle_seconds)
        listed = list_files(pool, source, storage, moments)
    jobs, taken = take(pool, source, listed, storage.url_of, submit, references)
    with transaction(pool) as connection:
        vanished = []
        if not listed.looked.cut_short:
            vanished = ledger.forget_unseen(connection, source.name, listed.began)
            ledger.note_whole_look(connection, source.name, listed.began)
        stalled = ledger.stalled(connection, source.name, source.stalled_seconds)
    return replace(listed.looked, jobs=tuple(jobs), taken=taken, vanished=tuple(vanished), stalled=tuple(stalled))


def list_files(pool: Engine, source: DropSource, storage: Storage, moments: Moments) -> Listed:
    """Everything that is there, into the ledger, a bounded number at a time."""
    with transaction(pool) as connection:
        began = ledger.moment(connection)
    looked = Looked(source.name)
    markers: set[str] = set()
    entries = storage.entries()
    while batch := list(islice(entries, NOTED_AT_A_TIME)):
        files, others = [], []
        for entry in own_files(source, batch):
            if source.marker and entry.key.endswith(source.marker):
                markers.add(entry.key.removesuffix(source.marker))
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
    return Listed(began, looked, frozenset(markers))


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
) -> tuple[list[str], int]:
    """Submit the imports of all complete files and mark the files as taken: one transaction, both or neither."""
    marked = sorted(listed.markers) if source.marker else None
    keys: list[str] = []
    with transaction(pool) as connection:
        files: list[Ready] = ledger.ready(
            connection, source.name, listed.began, source.settle_seconds, marked, TAKEN_AT_A_TIME
        )
        for group in groups.grouped(source, files, groups.needed_order(references)):
            earlier = ledger.unfinished_jobs(
                connection, source.name, sorted(groups.needed_by(group.rule.resource, references))
            )
            files_of_job = [(url_of(file.path), file.size, file.known_sha256) for file in group.files]
            rule = {key: value for key, value in vars(group.rule).items() if key != "glob"}
            job_id, job_key = submit(connection, source.name, files_of_job, **rule)
            ledger.take(connection, [file.drop_id for file in group.files], job_id, earlier)
            keys.append(job_key)
    return keys, len(files)
