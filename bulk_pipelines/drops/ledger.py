"""The ledger of dropped files: which were seen, are complete, were taken and put away. All times are those of the
database's clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.storage.contract import Entry

TOGETHER_SECONDS = 10.0
"""Files that are first seen within so many seconds after a file could be complete count as dropped together with it."""


class Ready(NamedTuple):
    """A complete file that nobody has taken yet; `known_sha256` are contents it had when it was taken before."""

    drop_id: int
    path: str
    version: str
    size: int
    resource: str
    known_sha256: list[str]


@dataclass(frozen=True)
class Completeness:
    """When a file counts as complete, and when an incomplete one no longer holds up others."""

    settle_seconds: float
    stalled_seconds: float
    markers: Mapping[str, datetime | None] | None
    """When each marker was written, by the file it is for. None means that the source has no markers, and a file is
    complete once it stops changing."""


class Complete(NamedTuple):
    """The files that are taken now, and how many complete ones are not taken for each reason."""

    files: list[Ready]
    behind_earlier: int
    behind_needed: int
    left_over: int


class Stalled(NamedTuple):
    path: str
    size: int
    age_seconds: float


class Ended(NamedTuple):
    """A file whose job is over, or was removed."""

    drop_id: int
    path: str
    version: str
    job_key: str | None
    job_status: str | None
    job_finished_at: datetime | None
    last_error: str | None
    dlq_items: int
    seconds_since_end: float
    failed_before: bool
    """Whether the file was put away before: its job failed, was tried again, and is over again."""
    files_of_job: int


class Outcome(NamedTuple):
    """What an import noted of one of its files."""

    sha256: str | None = None
    duplicate: bool = False
    note: str | None = None
    range_error: str | None = None
    """The error of a range of the file that is a dead letter, if there is one."""


@dataclass(frozen=True)
class LastWord:
    drop_id: int
    status: str
    sha256: str | None
    note: str | None
    job_finished_at: datetime | None
    """The end of the job that this word is about."""


@dataclass(frozen=True)
class Answering:
    failures: int = 0
    last_error: str | None = None
    wait_seconds: float = 0.0


def text(name: str) -> str:
    return queries.text("drops", name)


def lock(connection: Connection, source: str) -> bool:
    """Lock a source until the transaction ends. Return False if another daemon is looking at it now."""
    row = connection.execute(text("lock_source"), {"source": source}).fetchone()
    return bool(row and row[0])


def longest_unseen_first(connection: Connection, sources: Sequence[str]) -> list[str]:
    return [row[0] for row in connection.execute(text("longest_unseen_first"), {"sources": list(sources)})]


def moment(connection: Connection) -> datetime:
    row = connection.execute(text("moment")).fetchone()
    assert row is not None
    found: datetime = row[0]
    return found


def answering(connection: Connection, source: str) -> Answering:
    row = connection.execute(text("source_of"), {"source": source}).fetchone()
    return Answering(*row) if row else Answering()


def note_answer(connection: Connection, source: str, error: str | None, delay: float) -> None:
    connection.execute(text("note_answer"), {"source": source, "error": error, "delay": delay})


def note_files(connection: Connection, source: str, entries: Sequence[tuple[Entry, str]]) -> int:
    """Write down the files that a look saw, each with its resource. Return how many of them are still to be taken."""
    # A folder that is written to while it is listed may name a file twice; the last entry holds.
    entries = list({entry.key: (entry, resource) for entry, resource in entries}.values())
    values = {
        "source": source,
        "paths": [entry.key for entry, _ in entries],
        "versions": [entry.version for entry, _ in entries],
        "sizes": [entry.size for entry, _ in entries],
        "modified": [entry.modified for entry, _ in entries],
        "resources": [resource for _, resource in entries],
    }
    row = connection.execute(text("note_files"), values).fetchone()
    connection.execute(text("bring_back"), values)  # after note_files, because this is the first look at these files
    return int(row[1]) if row else 0


def note_present(connection: Connection, source: str, entries: Sequence[Entry]) -> None:
    """Write down that these files, for which there is no rule any more, are still there. So retention keeps their
    entries; otherwise a rule that comes back would take them again."""
    values = {
        "source": source,
        "paths": [entry.key for entry in entries],
        "versions": [entry.version for entry in entries],
    }
    connection.execute(text("note_present"), values)


def note_unmatched(connection: Connection, source: str, entries: Sequence[Entry], whole: bool) -> None:
    """Write down, for people to see, the files that no rule is for. After a whole look, all others are removed."""
    sizes = {entry.key: entry.size for entry in entries}
    values = {"source": source, "paths": list(sizes), "sizes": list(sizes.values()), "whole": whole}
    connection.execute(text("note_unmatched"), values)


def note_whole_look(connection: Connection, source: str, look_began: datetime, unread: Sequence[str]) -> None:
    values = {"source": source, "look_began": look_began, "unread": list(unread)}
    connection.execute(text("note_whole_look"), values)


def forget_unseen(connection: Connection, source: str, look_began: datetime, unread: Sequence[str]) -> list[str]:
    """End the entries of watched files that this look did not see, and return their paths. `unread` names what is there
    and could not be looked at, or into: files there may still be there."""
    values = {"source": source, "look_began": look_began, "unread": list(unread)}
    return [row[0] for row in connection.execute(text("forget_unseen"), values)]


def complete(
    connection: Connection,
    source: str,
    look_began: datetime,
    completeness: Completeness,
    needs: Mapping[str, Sequence[str]],
    most: int,
) -> Complete:
    """Find and lock up to `most` complete files, so that they can be taken in this transaction. `needs` has the
    resources in the order in which they need each other, each with all that it refers to."""
    markers = completeness.markers or {}
    pairs = [(needing, needed) for needing, all_needed in needs.items() for needed in all_needed]
    values = {
        "source": source,
        "look_began": look_began,
        "settle_seconds": completeness.settle_seconds,
        "stalled_seconds": completeness.stalled_seconds,
        "together_seconds": completeness.settle_seconds + TOGETHER_SECONDS,
        "with_markers": completeness.markers is not None,
        "marked": list(markers),
        "marked_at": list(markers.values()),
        "needing": [needing for needing, _ in pairs],
        "needed": [needed for _, needed in pairs],
        "resource_order": list(needs),
        "most": most,
    }
    row = connection.execute(text("ready_files"), values).fetchone()
    assert row is not None
    *counts, drop_ids = row
    found = connection.execute(text("files_to_take"), {"drop_ids": drop_ids}).fetchall() if drop_ids else []
    return Complete([Ready._make(each) for each in found], *counts)


def stalled(connection: Connection, source: str, seconds: float) -> list[Stalled]:
    values = {"source": source, "stalled_seconds": seconds}
    return [Stalled._make(row) for row in connection.execute(text("stalled_files"), values).fetchall()]


def take(connection: Connection, drop_ids: Sequence[int], job_id: int, waits_for: Sequence[int]) -> None:
    """Mark files as taken by a job, in the order in which they were submitted: the first is number 1 of the import."""
    connection.execute(text("take_files"), {"drop_ids": list(drop_ids), "job_id": job_id})
    if waits_for:
        connection.execute(text("wait_for"), {"job_id": job_id, "waits_for": list(waits_for)})


def unfinished_jobs(connection: Connection, source: str, resources: Sequence[str]) -> list[int]:
    values = {"source": source, "resources": list(resources)}
    return [row[0] for row in connection.execute(text("unfinished_jobs_of"), values)]


def ended(connection: Connection, source: str, most: int) -> list[Ended]:
    rows = connection.execute(text("ended_files"), {"source": source, "most": most}).fetchall()
    return [Ended._make(row) for row in rows]


def outcomes(connection: Connection, drop_ids: Sequence[int]) -> dict[int, Outcome]:
    """Return what the imports noted of dropped files, by their ids."""
    rows = connection.execute(text("outcomes_of_files"), {"drop_ids": list(drop_ids)}).fetchall()
    return {drop_id: Outcome(*outcome) for drop_id, *outcome in rows}


def end(connection: Connection, words: Sequence[LastWord]) -> None:
    values = {
        "drop_ids": [word.drop_id for word in words],
        "statuses": [word.status for word in words],
        "sha256s": [word.sha256 for word in words],
        "notes": [word.note for word in words],
        "jobs_finished_at": [word.job_finished_at for word in words],
    }
    connection.execute(text("end_files"), values)
