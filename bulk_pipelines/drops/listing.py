"""Listing what lies at a source into the ledger, a bounded number of files at a time."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import ledger
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.storage.contract import Entry, LeftOut, Storage

TEMPORARY = re.compile(r"(^|/)[.~][^/]*$|\.(part|partial|tmp|temp|filepart|crdownload|swp)$|~$", re.IGNORECASE)
NOTED_AT_A_TIME = 1_000
NAMED_KEPT = 1_000
"""How many names of files that are not taken are kept, for people to see."""


@dataclass
class Listed:
    """What a listing found."""

    began: datetime
    seen: int = 0
    watched: int = 0
    temporary: int = 0
    unmatched: int = 0
    first_unmatched: list[Entry] = field(default_factory=list)
    left_out: int = 0
    first_left_out: list[LeftOut] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """The names of what is there and could not be looked at, or into."""
    markers: dict[str, datetime | None] = field(default_factory=dict)
    """When each marker was written, by the file it is for."""
    cut_short: bool = False

    def leave_out(self, each: LeftOut) -> None:
        self.left_out += 1
        if each.unread:
            self.unread.append(each.name)
        if len(self.first_left_out) < NAMED_KEPT:
            self.first_left_out.append(each)


@dataclass
class Waiting:
    """Files that were listed and are not in the ledger yet."""

    files: list[tuple[Entry, str]] = field(default_factory=list)
    """The files that a rule is for, each with the rule's resource."""
    others: list[Entry] = field(default_factory=list)


def list_files(pool: Engine, source: DropSource, storage: Storage, out_of_time: Callable[[], bool]) -> Listed:
    """List everything at a source except the folders of files that were put away. The listing stops after the first
    page at whose end `out_of_time()` is true."""
    with transaction(pool) as connection:
        listed = Listed(ledger.moment(connection))
    waiting = Waiting()
    aside = [folder for folder in (source.done_folder, source.failed_folder) if folder]
    for page in storage.pages(aside=aside):
        for each in page.left_out:
            listed.leave_out(each)
        sort(source, page.entries, listed, waiting)
        if len(waiting.files) + len(waiting.others) >= NOTED_AT_A_TIME:
            note(pool, source, listed, waiting)
            waiting = Waiting()
        if out_of_time():
            listed.cut_short = True
            break
    note(pool, source, listed, waiting)
    return listed


def sort(source: DropSource, entries: Iterable[Entry], listed: Listed, waiting: Waiting) -> None:
    for entry in entries:
        if source.marker and entry.key.endswith(source.marker):
            listed.markers[entry.key.removesuffix(source.marker)] = entry.modified
        elif TEMPORARY.search(entry.key):
            listed.temporary += 1
        elif (rule := source.rule_for(entry.key)) is None:
            listed.unmatched += 1
            waiting.others.append(entry)
            if len(listed.first_unmatched) < NAMED_KEPT:
                listed.first_unmatched.append(entry)
        else:
            waiting.files.append((entry, rule.target))


def note(pool: Engine, source: DropSource, listed: Listed, waiting: Waiting) -> None:
    listed.seen += len(waiting.files)
    with transaction(pool) as connection:
        if waiting.files:
            listed.watched += ledger.note_files(connection, source.name, waiting.files)
        if waiting.others:
            ledger.note_present(connection, source.name, waiting.others)
