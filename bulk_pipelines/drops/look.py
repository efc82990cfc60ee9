"""One look at a source: it lists the source, notes what is there and takes what is complete. A look may be repeated or
cut short without harm."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.drops import grouping, ledger, targets
from bulk_pipelines.drops.grouping import Group
from bulk_pipelines.drops.ledger import Complete, Completeness, Stalled
from bulk_pipelines.drops.listing import Listed, list_files
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.drops.targets import Targets
from bulk_pipelines.errors import BulkError
from bulk_pipelines.storage.contract import Storage

TAKEN_AT_A_TIME = 5_000
LOOK_SECONDS = 30.0
"""The time after which a look stops listing, and says so, because Dagster gives a tick one minute."""
NAMED = 10
"""How many names of files that are not taken a tick tells."""
FIRST_DELAY = 5.0
LONGEST_DELAY = 600.0


File = tuple[str, int, str, list[str]]
"""A file's address, its size, the version that is taken, and the SHA-256 of each content that was imported from there
before."""


class Submit(Protocol):
    """A function that submits one import, in the transaction that takes its files. It returns the job's id and key."""

    def __call__(
        self,
        connection: Connection,
        source: str,
        files: Sequence[File],
        *,
        resource: str,
        options: Mapping[str, Any],
    ) -> tuple[int, str]:
        """Submit an import of these files, which numbers them from 1 on as they are given. The options are those of a
        request; `within` among them is the folder of this machine that the files lie in."""
        ...


class Process(Protocol):
    """A function that submits a job of processing, in the transaction that takes its file. It returns the job's id and
    key."""

    def __call__(
        self,
        connection: Connection,
        source: str,
        file: File,
        *,
        recipe: str,
        options: Mapping[str, Any],
        within: str | None,
    ) -> tuple[int, str]:
        """Submit the rows of this file to a recipe. The options say how it is read, and `within` is the folder of this
        machine that the file lies in."""
        ...


@dataclass(frozen=True)
class Doors:
    """How taken files are submitted."""

    submit: Submit
    process: Process
    references: Mapping[str, Sequence[str]]
    """The resources, and which others each of them refers to."""


@dataclass(frozen=True)
class Looked:
    """What a look found and did, for the people who read a tick."""

    source: str
    seen: int = 0
    watched: int = 0
    temporary: int = 0
    unmatched: int = 0
    unmatched_names: tuple[str, ...] = ()
    """The names of the first files that no rule is for."""
    left_out: int = 0
    """How many files were left out because their names are no keys or they could not be looked at."""
    left_out_names: tuple[str, ...] = ()
    """The names of the first that were left out, and why."""
    behind_earlier: int = 0
    behind_needed: int = 0
    left_over: int = 0
    without_table: int = 0
    """How many complete files wait because their tables cannot be used."""
    unusable: tuple[str, ...] = ()
    """Why the tables of files that wait cannot be used."""
    jobs: tuple[str, ...] = ()
    taken: int = 0
    vanished: tuple[str, ...] = ()
    stalled: tuple[Stalled, ...] = ()
    cut_short: bool = False
    skipped: str | None = None

    def __str__(self) -> str:
        if self.skipped:
            return f"{self.source}: {self.skipped}"
        parts = [f"{counted(self.seen, 'file')} seen", f"{self.taken} taken"]
        if self.jobs:
            parts.append(f"as {', '.join(self.jobs)}")
        complete = self.taken + self.behind_earlier + self.behind_needed + self.left_over + self.without_table
        left = {
            "not complete yet": self.watched - complete,
            "waiting for the import of their earlier version": self.behind_earlier,
            "waiting for files that they refer to": self.behind_needed,
            "left for the next look": self.left_over,
            "dealt with before": self.seen - self.watched,
            "with temporary names": self.temporary,
        }
        parts += [f"{count} {why}" for why, count in left.items() if count > 0]
        if self.without_table:
            parts.append(f"{self.without_table} whose table cannot be used ({'; '.join(self.unusable)})")
        if self.unmatched:
            parts.append(f"{self.unmatched} that no rule is for ({named(self.unmatched_names, self.unmatched)})")
        if self.left_out:
            parts.append(f"{self.left_out} left out ({named(self.left_out_names, self.left_out)})")
        parts += [f"{path} went away" for path in self.vanished]
        parts += [f"{each.path} has been arriving for {each.age_seconds / 60:.0f} minutes" for each in self.stalled]
        if self.cut_short:
            parts.append("the listing took too long and was cut short")
        return f"{self.source}: {', '.join(parts)}"


def named(names: Sequence[str], count: int) -> str:
    more = count - len(names)
    return "; ".join(names) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class Moments:
    """The clock of a look, and when its time is over."""

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
    doors: Doors,
    seconds: float = LOOK_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Looked:
    """Look at a source. A look ends about `seconds` after it began, however many files there are."""
    moments = Moments(clock() + seconds, clock, sleep)
    with transaction(pool) as guard:
        if not ledger.lock(guard, source.name):
            return Looked(source.name, skipped="another daemon is looking at it")
        answering = ledger.answering(guard, source.name)
        if answering.wait_seconds > 0:
            return Looked(source.name, skipped=f"{answering.last_error}; next look in {answering.wait_seconds:.0f} s")
        try:
            with open_storage() as storage:
                looked = take_what_is_complete(pool, source, storage, doors, moments)
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
    doors: Doors,
    moments: Moments,
) -> Looked:
    left = moments.left
    listed = list_files(pool, source, storage, lambda: moments.left < 0)
    # A second listing that is cut short would see less than the first.
    time_for_another = moments.left > source.settle_seconds + (left - moments.left)
    if listed.watched and source.marker is None and time_for_another:
        # List a second time, so that new files that stay as they are do not have to wait for the next tick.
        moments.sleep(source.settle_seconds)
        listed = list_files(pool, source, storage, lambda: moments.left < 0)
    taken = take(pool, source, listed, storage.url_of, doors)
    complete = taken.complete
    with transaction(pool) as connection:
        vanished = []
        if not listed.cut_short:
            vanished = ledger.forget_unseen(connection, source.name, listed.began, listed.unread)
            ledger.note_whole_look(connection, source.name, listed.began, listed.unread)
        ledger.note_unmatched(connection, source.name, listed.first_unmatched, whole=not listed.cut_short)
        stalled = ledger.stalled(connection, source.name, source.stalled_seconds)
    return Looked(
        source.name,
        seen=listed.seen,
        watched=listed.watched,
        temporary=listed.temporary,
        unmatched=listed.unmatched,
        unmatched_names=tuple(repr(entry.key) for entry in listed.first_unmatched[:NAMED]),
        left_out=listed.left_out,
        left_out_names=tuple(str(each) for each in listed.first_left_out[:NAMED]),
        behind_earlier=complete.behind_earlier,
        behind_needed=complete.behind_needed,
        left_over=complete.left_over,
        without_table=taken.without_table,
        unusable=taken.unusable,
        jobs=taken.keys,
        taken=len(complete.files) - taken.without_table,
        vanished=tuple(vanished),
        stalled=tuple(stalled),
        cut_short=listed.cut_short,
    )


@dataclass(frozen=True)
class Taken:
    """The jobs of a look, and the complete files, some of which have no table that can be used."""

    keys: tuple[str, ...]
    complete: Complete
    without_table: int
    unusable: tuple[str, ...]


def take(pool: Engine, source: DropSource, listed: Listed, url_of: Callable[[str], str], doors: Doors) -> Taken:
    """Submit the jobs of all complete files and mark the files as taken, both in one transaction."""
    markers = listed.markers if source.marker else None
    completeness = Completeness(source.settle_seconds, source.stalled_seconds, markers)
    keys: list[str] = []
    with transaction(pool) as connection:
        known = targets.found(connection, source, doors.references)
        needs = known.needs
        complete = ledger.complete(connection, source.name, listed.began, completeness, needs, TAKEN_AT_A_TIME)
        usable = [file for file in complete.files if file.resource not in known.unusable]
        for group in grouping.grouped(source, usable, list(needs)):
            earlier = ledger.unfinished_jobs(connection, source.name, needs[group.rule.target])
            job_id, job_key = submitted(connection, source, group, url_of, doors, known)
            ledger.take(connection, [file.drop_id for file in group.files], job_id, earlier)
            keys.append(job_key)
    why = sorted({known.unusable[file.resource] for file in complete.files if file.resource in known.unusable})
    return Taken(tuple(keys), complete, len(complete.files) - len(usable), tuple(why))


def submitted(
    connection: Connection,
    source: DropSource,
    group: Group,
    url_of: Callable[[str], str],
    doors: Doors,
    known: Targets,
) -> tuple[int, str]:
    """Submit the job of a group of files, and return its id and key."""
    rule = group.rule
    files = [
        (source.import_address(url_of(file.path)), file.size, file.version, file.known_sha256) for file in group.files
    ]
    if rule.recipe:
        (file,) = files
        return doors.process(
            connection, source.name, file, recipe=rule.recipe, options=rule.of_rows, within=source.folder
        )
    declared = known.declared.get(rule.target)
    declaration = None if declared is None or declared.built_in else declared
    return doors.submit(
        connection,
        source.name,
        files,
        resource=rule.resource if declared is None else declared.name,
        options=rule.options | {"within": source.folder, "declaration": declaration},
    )
