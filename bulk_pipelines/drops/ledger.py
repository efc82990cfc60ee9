"""The ledger of dropped files: what was seen, what is complete, what was taken. All times are the database's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from bulk_pipelines.database import queries
from bulk_pipelines.storage.contract import Entry

Connection = psycopg.Connection[Any]

TOGETHER_SECONDS = 10.0
"""What begins to arrive so soon after a file was dropped with it."""


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
    """When a file counts as complete, and when one that is not does not hold up others any more."""

    settle_seconds: float
    stalled_seconds: float
    markers: Mapping[str, datetime | None] | None
    """By the files they are for; None: the source has none, files are complete once they stop changing."""


class Complete(NamedTuple):
    """What is taken now; and how many complete files are not, by why."""

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
    last_error: str | None
    dlq_items: int
    seconds_since_end: float
    failed_before: bool
    """It has been put away already: its job failed, was tried again, and is over again."""
    files_of_job: int


class Outcome(NamedTuple):
    """What an import noted of one of its files."""

    sha256: str | None = None
    duplicate: bool = False
    note: str | None = None
    range_error: str | None = None
    """Of one of its ranges that is a dead letter."""


class Listed(NamedTuple):
    """An entry as people see it; `at` is when it came to its state."""

    source: str
    path: str
    size: int
    resource: str | None
    """None where no rule is for it."""
    status: str
    job_key: str | None
    note: str | None
    at: datetime


@dataclass(frozen=True)
class LastWord:
    drop_id: int
    status: str
    sha256: str | None
    note: str | None


@dataclass(frozen=True)
class Answering:
    failures: int = 0
    last_error: str | None = None
    wait_seconds: float = 0.0


def text(name: str) -> str:
    return queries.text("drops", name)


def lock(connection: Connection, source: str) -> bool:
    """Until the transaction ends this source is ours; False: somebody else looks at it now."""
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
    """What a look saw, each with its resource; returns how many of them are still to be taken."""
    # A folder that is written to while it is listed may name a file twice: what was said last holds.
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
    connection.execute(text("bring_back"), values)  # after it: this is the first look at them
    return int(row[1]) if row else 0


def note_present(connection: Connection, source: str, entries: Sequence[Entry]) -> None:
    """Files that are there and no rule is for."""
    values = {
        "source": source,
        "paths": [entry.key for entry in entries],
        "versions": [entry.version for entry in entries],
    }
    connection.execute(text("note_present"), values)


def note_unmatched(connection: Connection, source: str, entries: Sequence[Entry], whole: bool) -> None:
    """Files that no rule is for, for people to see. After a whole look, others are gone."""
    sizes = {entry.key: entry.size for entry in entries}
    values = {"source": source, "paths": list(sizes), "sizes": list(sizes.values()), "whole": whole}
    connection.execute(text("note_unmatched"), values)


def note_whole_look(connection: Connection, source: str, look_began: datetime, unread: Sequence[str]) -> None:
    values = {"source": source, "look_began": look_began, "unread": list(unread)}
    connection.execute(text("note_whole_look"), values)


def forget_unseen(connection: Connection, source: str, look_began: datetime, unread: Sequence[str]) -> list[str]:
    """`unread`: what is there and could not be looked at, or into."""
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
    """Locked, so that they can be taken in this transaction. `needs`: the resources in the order in which they need
    each other, each with all that it refers to."""
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
    connection.execute(text("take_files"), {"drop_ids": list(drop_ids), "job_id": job_id})
    if waits_for:
        connection.execute(text("wait_for"), {"job_id": job_id, "waits_for": list(waits_for)})


def unfinished_jobs(connection: Connection, source: str, resources: Sequence[str]) -> list[int]:
    values = {"source": source, "resources": list(resources)}
    return [row[0] for row in connection.execute(text("unfinished_jobs_of"), values)]


def ended(connection: Connection, source: str, most: int) -> list[Ended]:
    rows = connection.execute(text("ended_files"), {"source": source, "most": most}).fetchall()
    return [Ended._make(row) for row in rows]


def outcomes(connection: Connection, addresses: Mapping[int, str]) -> dict[int, Outcome]:
    """By the drops' ids, whose files have these addresses. An import that never read a file has noted nothing of it."""
    values = {"drop_ids": list(addresses), "addresses": list(addresses.values())}
    rows = connection.execute(text("outcomes_of_files"), values).fetchall()
    return {drop_id: Outcome(*outcome) for drop_id, *outcome in rows}


def end(connection: Connection, words: Sequence[LastWord]) -> None:
    values = {
        "drop_ids": [word.drop_id for word in words],
        "statuses": [word.status for word in words],
        "sha256s": [word.sha256 for word in words],
        "notes": [word.note for word in words],
    }
    connection.execute(text("end_files"), values)


def page(connection: Connection, source: str | None, status: str | None, most: int) -> list[Listed]:
    """The newest entries."""
    values = {"source": source, "status": status, "most": most}
    return [Listed._make(row) for row in connection.execute(text("list_drops"), values).fetchall()]
