"""A whole import, one record after the other, over tables that are dictionaries: what a real one must come to."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bulk_pipelines.imports.context import Mode
from bulk_pipelines.resources.declaration import Fill, Key, Resource
from bulk_pipelines_tests.property.imports import slow_rules
from bulk_pipelines_tests.property.imports.slow_reading import Code, File, NoGood, Record, read

Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]
"""The rows of each resource by their ids; `line` says which line of the import wrote a row, None that it did not."""


@dataclass(frozen=True)
class Asked:
    resource: Resource
    files: list[bytes]
    mode: Mode
    match_on: str | None = None
    refused: Callable[[Row], bool] = lambda _: False
    """What somebody's trigger or constraint refuses, which nobody declared."""


@dataclass
class Outcome:
    rows: dict[str, Row]
    counts: Counter[str] = field(default_factory=Counter)
    rejects: dict[int, tuple[bytes, list[Code]]] = field(default_factory=dict)
    left_out: int = 0

    @property
    def status(self) -> str:
        if self.counts["read"] and not self.counts["loaded"] + self.counts["valid"]:
            return "FAILED"
        return "COMPLETED_WITH_ERRORS" if self.rejects or self.left_out else "COMPLETED"


@dataclass
class Candidate:
    """A record that passed the rules."""

    line: int
    raw: bytes
    values: Row


def imported(asked: Asked, tables: Tables, now: datetime) -> Outcome:
    outcome = Outcome({key: dict(row) for key, row in tables[asked.resource.name].items()})
    files = readable(asked, outcome)
    passing = judged(asked, files, outcome)
    if asked.mode is Mode.UPSERT:
        key = matching(asked, files)
        Upsert(asked, tables, outcome, key, now).run(passing, set(files[0][2].columns))
    else:
        insert(asked, tables, outcome, passing, now)
    return outcome


def judged(asked: Asked, files: list[tuple[int, bytes, File]], outcome: Outcome) -> list[Candidate]:
    """The records that pass the rules; the others are rejected."""
    found = []
    for base, data, file in files:
        for record in file.records:
            outcome.counts["read"] += 1
            values, codes = slow_rules.judge(record, asked.resource)
            if codes:
                reject(outcome, base + record.line, record.raw, codes)
            else:
                found.append(Candidate(base + record.line, record.raw, identified(asked, data, record, values)))
    return found


def candidates(asked: Asked) -> list[Candidate]:
    outcome = Outcome({})
    return judged(asked, readable(asked, outcome), outcome)


def new_row(asked: Asked, each: Candidate, now: datetime) -> Row:
    return slow_rules.filled(each.values, asked.resource, each.values["id"], now) | {"line": each.line}


def readable(asked: Asked, outcome: Outcome) -> list[tuple[int, bytes, File]]:
    """The files that can be imported, and how far the lines of each are moved."""
    found: list[tuple[int, bytes, File]] = []
    base = 0
    for data in asked.files:
        try:
            file = read(data, asked.resource)
            if asked.mode is Mode.UPSERT:
                matching(asked, [(0, b"", file)])
                if found and set(found[0][2].columns) != set(file.columns):
                    raise NoGood("other columns")
            found.append((base, data, file))
        except NoGood:
            outcome.left_out += 1
        base += len(data)
    if not found:
        raise NoGood("all of them")
    return found


def matching(asked: Asked, files: list[tuple[int, bytes, File]]) -> Key:
    columns = files[0][2].columns
    usable = [key for key in asked.resource.keys if key.column in columns and asked.match_on in (None, key.column)]
    if not usable:
        raise NoGood("no key")
    return usable[0]


def identified(asked: Asked, data: bytes, record: Record, values: Row) -> Row:
    return values | {"id": values["id"] or slow_rules.made_id(data, record.line)}


def reject(outcome: Outcome, line: int, raw: bytes, codes: list[Code]) -> None:
    outcome.counts["rejected"] += 1
    outcome.rejects[line] = (raw, codes)


def key_of(key: Key, row: Row) -> str:
    value = str(row[key.column])
    return value.lower() if key.ignores_case else value


def leads_nowhere(asked: Asked, tables: Tables, row: Row) -> list[Code]:
    return [
        (each.code, each.column) for each in asked.resource.references if row[each.column] not in tables[each.resource]
    ]


def in_order(resource: Resource, codes: list[Code]) -> list[Code]:
    return sorted(codes, key=lambda code: resource.column_names.index(code[1] or ""))


def insert(asked: Asked, tables: Tables, outcome: Outcome, passing: list[Candidate], now: datetime) -> None:
    """The first record of a key owns it, loaded or not; so does a row that was there before."""
    taken = {key: {key_of(key, row) for row in outcome.rows.values()} for key in asked.resource.keys}
    for each in passing:
        row = new_row(asked, each, now)
        codes: list[Code] = [(key.code, key.column) for key in asked.resource.keys if key_of(key, row) in taken[key]]
        codes = in_order(asked.resource, codes + leads_nowhere(asked, tables, row))
        for key in asked.resource.keys:
            taken[key].add(key_of(key, row))
        if not codes and asked.refused(row):
            codes = [("refused_by_table", None)]
        if codes:
            reject(outcome, each.line, each.raw, codes)
        elif asked.mode is Mode.VALIDATE:
            outcome.counts["valid"] += 1
        else:
            outcome.counts["loaded"] += 1
            outcome.rows[row["id"]] = row


@dataclass
class Upsert:
    asked: Asked
    tables: Tables
    outcome: Outcome
    match_on: Key
    now: datetime

    def run(self, passing: list[Candidate], columns: set[str]) -> None:
        """The last record about a row counts; what it may have is told by the table as it was before."""
        lasts = {key_of(self.match_on, each.values): each for each in passing}
        self.outcome.counts["superseded"] += len(passing) - len(lasts)
        left = sorted(lasts.values(), key=lambda each: each.line)
        before = dict(self.outcome.rows)
        others = [key for key in self.asked.resource.keys if key != self.match_on]
        owners = {key: {key_of(key, each.values): each.line for each in left} for key in others}
        for each in left:
            about = self.row_about(before, each)
            codes = leads_nowhere(self.asked, self.tables, each.values)
            for key in others:
                doubled = owners[key][key_of(key, each.values)] != each.line
                if doubled or self.is_held(before, key, each, about):
                    codes.append((key.code, key.column))
            row = self.merged(each, about, columns)
            codes = in_order(self.asked.resource, codes)
            # The record may be right, and not go with what the row has besides.
            if not codes and (self.asked.refused(row) or slow_rules.broken_together(row, self.asked.resource)):
                codes = [("refused_by_table", None)]
            if codes:
                reject(self.outcome, each.line, each.raw, codes)
            else:
                self.outcome.counts["loaded"] += 1
                if about is not None:
                    self.outcome.counts["unchanged" if self.says_the_same(each, about, columns) else "updated"] += 1
                self.outcome.rows[row["id"]] = row

    def says_the_same(self, each: Candidate, about: Row, columns: set[str]) -> bool:
        """Whether the record gives nothing but what the row has. The id is not given to a row that exists, and where a
        column is filled, no value leaves it as it is."""
        for column in self.asked.resource.columns:
            given = each.values.get(column.name)
            left = column.name == "id" or column.name not in columns or (given is None and column.fill)
            if not left and given != about[column.name]:
                return False
        return True

    def row_about(self, before: dict[str, Row], each: Candidate) -> Row | None:
        wanted = key_of(self.match_on, each.values)
        return next((row for row in before.values() if key_of(self.match_on, row) == wanted), None)

    def is_held(self, before: dict[str, Row], key: Key, each: Candidate, about: Row | None) -> bool:
        """Return whether a row that the record is not about holds the key. A row keeps its id, so the id in a record
        about it does not count."""
        if key == self.asked.resource.keys[0] and about is not None:
            return False
        return any(key_of(key, row) == key_of(key, each.values) for row in before.values() if row is not about)

    def merged(self, each: Candidate, about: Row | None, columns: set[str]) -> Row:
        new = new_row(self.asked, each, self.now)
        if about is None:
            return new
        row = dict(about) | {"line": each.line}
        for column in self.asked.resource.columns:
            if column.name == "id":
                continue
            if column.fill is Fill.CHANGE_TIME:
                row[column.name] = new[column.name]
            elif column.name in columns:
                given = each.values[column.name]
                row[column.name] = about[column.name] if given is None and column.fill else given
        return row
