"""Imports without jobs: a file is cut, and loaded in any order of batches, as lanes would do it; then tests
read what came of it."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from bulk_pipelines import resources
from bulk_pipelines.database import pool
from bulk_pipelines.imports.context import ImportContext, Mode, matching_key
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.load import loading, rejects, staging
from bulk_pipelines.imports.plan.cut import ranges
from bulk_pipelines.imports.plan.cut.ranges import Range
from bulk_pipelines.imports.plan.inspect import layout
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.plan.land.landed_file import LandedFile, LocalFile
from bulk_pipelines.imports.reconcile import reconciling, unseen
from bulk_pipelines.imports.reconcile.control import Control
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.blocks import Position
from bulk_pipelines.imports.validate import validation
from bulk_pipelines.resources.declaration import Resource

SUBMITTED = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Pace:
    rows: int
    max_bytes: int = 16 * 1024 * 1024


@dataclass
class Run:
    """An import. `chance` decides in which order the batches of the ranges are loaded, which of them are loaded once
    before in a transaction that is rolled back, and which are loaded directly."""

    engine: Engine
    context: ImportContext
    source: LandedFile
    layout: Layout
    ranges: list[Range]
    rows: int = 1_000
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    counts: Counts = field(default_factory=Counts)

    def load(self) -> "Run":
        positions = {number: Position(each.start, each.first_line) for number, each in enumerate(self.ranges)}
        while positions:
            number = self.chance.choice(list(positions))
            position = self.load_next(self.ranges[number], positions[number])
            if position.start >= self.ranges[number].stop:
                del positions[number]
            else:
                positions[number] = position
        return self

    def load_range(self, piece: Range) -> None:
        position = Position(piece.start, piece.first_line)
        while position.start < piece.stop:
            position = self.load_next(piece, position)

    def load_next(self, piece: Range, position: Position) -> Position:
        found = blocks.read(
            self.source, self.layout, piece, Pace(self.rows), self.context.max_record_bytes, resume=position
        )
        block = next(found)
        validated = validation.validate(self.context, self.layout, block)
        if self.chance.random() < 0.2:
            with pool.transaction(self.engine) as connection, connection.transaction(force_rollback=True):
                loading.load_batch(connection, self.context, validated)
        with self.transaction() as (connection, notes):
            direct = self.chance.random() < 0.7
            notes.append(loading.load_batch(connection, self.context, validated, direct=direct).counts)
        return block.following

    def reconcile(self, *, more_may_come: bool = False) -> "Run":
        noted: list[Counts] = []

        @contextmanager
        def begin() -> Iterator[psycopg.Connection[Any]]:
            nonlocal noted
            with self.transaction() as (connection, noted):
                yield connection

        control = Control(
            more_may_come=more_may_come,
            note=lambda _, counts: noted.append(counts),
            complete=lambda begin: unseen.complete(begin, self.context, self.source, self.layout, self.ranges),
            accepts=lambda _, __: True,
            at_work=lambda _: True,
            end=lambda _: True,
        )
        assert reconciling.reconcile(begin, self.context, self.layout, control)
        return self

    @contextmanager
    def transaction(self) -> Iterator[tuple[psycopg.Connection[Any], list[Counts]]]:
        """Begin a transaction and a list for what it counts. The counts are added only once it is committed."""
        notes: list[Counts] = []
        with pool.transaction(self.engine) as connection:
            yield connection, notes
        self.counts = sum(notes, self.counts)

    def rejected(self) -> list[tuple[int, bytes, list[dict[str, Any]]]]:
        with pool.transaction(self.engine) as connection:
            return [(each.line, each.raw, each.reasons) for each in rejects.every(connection, self.context.job_id)]

    def codes(self) -> dict[int, list[str]]:
        return {line: [reason["code"] for reason in reasons] for line, _, reasons in self.rejected()}


def prepared(
    engine: Engine,
    path: Path,
    resource: str | Resource = "users",
    mode: Mode = Mode.INSERT,
    *,
    match_on: str | None = None,
    job_id: int = 1,
    range_bytes: int = 1 << 30,
    told: str | None = None,
    max_record_bytes: int = 1 << 20,
    **options: Any,
) -> Run:
    """Return an import of this file, which is cut and ready to load."""
    source = LocalFile(path)
    declared = resources.find(resource) if isinstance(resource, str) else resource
    found = layout.inspect(source, declared, told)
    declared = declared.narrowed(found.columns)
    key = matching_key(declared, match_on, found.columns) if mode is Mode.UPSERT else None
    context = ImportContext(
        job_id,
        declared,
        mode,
        hashlib.sha256(path.read_bytes()).digest(),
        SUBMITTED,
        match_on=key,
        max_record_bytes=max_record_bytes,
    )
    with pool.transaction(engine) as connection:
        staging.prepare(connection, context)
    return Run(engine, context, source, found, ranges.cut(source, found, range_bytes), **options)


def finished(engine: Engine, path: Path, *arguments: Any, **options: Any) -> Run:
    return prepared(engine, path, *arguments, **options).load().reconcile()


def rows(engine: Engine, resource: Resource) -> list[tuple[Any, ...]]:
    """Return what the table holds, with the lines but without the jobs."""
    names = [sql.Identifier(name) for name in (*resource.column_names, "import_line", "import_revised")]
    query = sql.SQL("SELECT {} FROM {} ORDER BY id").format(sql.SQL(", ").join(names), sql.Identifier(resource.table))
    with pool.transaction(engine) as connection:
        return connection.execute(query).fetchall()
