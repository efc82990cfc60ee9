"""Working an item of an import: a lane loads the ranges that it names, block by block, each in one transaction."""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache, partial

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import LeaseLost, WrongState
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer, Sample
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.measures import catalogue, recording
from bulk_pipelines.engine.outcomes import Done, Outcome, Unfinished
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.formats.ahead import Ahead
from bulk_pipelines.formats.files import expressions
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.context import ImportContext, Mode, matching_key
from bulk_pipelines.imports.load import refusals, staging
from bulk_pipelines.imports.load.loading import BatchResult, load_batch
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.plan.land.landing import opened
from bulk_pipelines.imports.records import blocks
from bulk_pipelines.imports.records.blocks import Block, Position
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.imports.validate.validation import Validated, validate
from bulk_pipelines.telemetry import events, spans

MAX_RECORD_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class Plan:
    """What all ranges of an import have in common: the request, and the files by their numbers."""

    pool: Engine
    request: ImportRequest
    files: dict[int, ImportFile]

    def context(self, job: Job, file: ImportFile) -> ImportContext:
        assert file.layout is not None
        assert file.sha256 is not None
        match_on = None
        resource = self.request.declared.narrowed(file.layout.columns)
        if self.request.mode is Mode.UPSERT:
            match_on = matching_key(resource, self.request.match_on, file.layout.columns)
        return ImportContext(
            job.job_id,
            resource,
            self.request.mode,
            bytes.fromhex(file.sha256),
            job.created_at,
            file.base_line,
            match_on,
            max_record_bytes=MAX_RECORD_BYTES,
            evaluate=partial(expressions.evaluate, self.pool),
        )


def plan_of(pool: Engine, job: Job) -> Plan:
    return Plan(pool, ImportRequest.from_params(job.params), files_of(pool, job.job_id))


@lru_cache(maxsize=4)
def files_of(pool: Engine, job_id: int) -> dict[int, ImportFile]:
    with transaction(pool) as connection:
        return {file.number: file for file in progress.files(connection, job_id)}


@dataclass(frozen=True)
class Read:
    """A validated block, the number of its range within the item, and whether it is the last block of the item."""

    range_index: int
    context: ImportContext
    block: Block
    validated: Validated
    is_last: bool


@dataclass(frozen=True)
class Begun:
    """An item that is being read, although the one before it is still being written."""

    lease: Lease
    reads: Ahead[Read]

    def close(self) -> None:
        self.reads.close()


def unheard(_: Read) -> None:
    """Nobody waits for any block."""


class Loader:
    """Works the items of imports. The adaptive batch size is one for all the ranges of a job that a worker loads.

    `loading` is called before each block is loaded; a test can do something there, or let the try fail."""

    def __init__(self, limits: BatchLimits, loading: Callable[[Read], None] = unheard) -> None:
        self.limits = limits
        self.loading = loading
        self.sizers: dict[tuple[str, int], BatchSizer] = {}
        self.prepared: set[tuple[Engine, int]] = set()

    def sizer(self, tools: Tools) -> BatchSizer:
        key = (tools.worker, tools.job.job_id)
        if key not in self.sizers:
            self.sizers[key] = BatchSizer.within(self.limits)
        return self.sizers[key]

    def make_room(self, tools: Tools, plan: Plan) -> None:
        """Make the tables that the records of an import into a table of somebody else wait in."""
        if plan.request.declared.built_in or (tools.pool, tools.job.job_id) in self.prepared:
            return
        file = next(file for file in plan.files.values() if file.layout is not None)
        context = plan.context(tools.job, file)
        with refusals.explained(tools.pool, context), transaction(tools.pool) as connection:
            staging.prepare(connection, context)
        self.prepared.add((tools.pool, tools.job.job_id))

    def handle(self, lease: Lease, tools: Tools) -> Outcome:
        plan = plan_of(tools.pool, tools.job)
        self.make_room(tools, plan)
        if abort_if_broken(tools, plan):
            return Unfinished()
        sizer = self.sizer(tools)
        direct = True
        with closing(self.reads_of(lease, tools, plan)) as reads:
            for read in reads:
                if read.is_last:
                    self.begin_following(tools, plan)
                self.loading(read)
                result = written(lease, tools, read, sizer, direct)
                direct = direct and not result.conflicted
                if abort_if_broken(tools, plan) or (tools.stopping() and not read.is_last):
                    return Unfinished()
        return Done()

    def begin_following(self, tools: Tools, plan: Plan) -> None:
        """Begin to read the item that is worked next, so that the server need not wait for its first block."""
        lease = tools.following()
        if lease is not None:
            tools.begun = Begun(lease, Ahead(read_on(lease, tools.job, plan, self.sizer(tools))))

    def reads_of(self, lease: Lease, tools: Tools, plan: Plan) -> Ahead[Read]:
        """Return what is read of the item, which may have been begun already."""
        begun = tools.begun
        if isinstance(begun, Begun) and begun.lease is lease:
            tools.begun = None
            return begun.reads
        tools.end_begun()
        return Ahead(read_on(lease, tools.job, plan, self.sizer(tools)))


def read_on(lease: Lease, job: Job, plan: Plan, sizer: BatchSizer) -> Generator[Read]:
    """Read and validate the blocks of the item's ranges that are still to be loaded."""
    ranges = progress.ranges_of(lease.input)
    begun = lease.checkpoint or {"range": 0}
    for index, (number, piece) in enumerate(ranges):
        if index < begun["range"]:
            continue
        file = plan.files[number]
        assert file.layout is not None
        resume = None
        if index == begun["range"] and "start" in begun:
            resume = Position(begun["start"], begun["line"])
        context = plan.context(job, file)
        with opened(file) as source:
            for block in blocks.read(source, file.layout, piece, sizer, MAX_RECORD_BYTES, resume):
                is_last = index == len(ranges) - 1 and block.following.start >= piece.stop
                yield Read(index, context, block, validate(context, file.layout, block), is_last)


def written(lease: Lease, tools: Tools, read: Read, sizer: BatchSizer, direct: bool) -> BatchResult:
    """Write a block, and measure and tell what became of it."""
    try:
        with spans.span("load", rows=read.validated.read):
            result, sample = write(lease, tools, read, sizer, direct)
    except Exception as error:
        recording.of(tools.pool).rolled_back("load")
        if not isinstance(error, LeaseLost):
            events.error("batch failed", rows=read.validated.read, error=f"{type(error).__name__}: {error}")
        raise
    note, kind, counts = recording.of(tools.pool), tools.job.kind, result.counts
    note.batch("load", sample.rows, sample.seconds, sample.waited_seconds)
    note.count(catalogue.ROWS, kind, "loaded", by=counts.loaded)
    note.count(catalogue.ROWS, kind, "rejected", by=counts.rejected)
    note.count(catalogue.ROWS, kind, "set_aside", by=counts.waiting)
    note.write_if_due()
    if events.told(logging.DEBUG):
        events.debug(
            "batch completed",
            successful_records=counts.loaded + counts.waiting,
            failed_records=counts.rejected,
            bytes=sample.bytes,
            duration_ms=round(sample.seconds * 1000, 1),
            rows_per_sec=round(sample.rows / sample.seconds, 1) if sample.seconds else None,
            next_rows=sizer.rows,
        )
    return result


def write(lease: Lease, tools: Tools, read: Read, sizer: BatchSizer, direct: bool) -> tuple[BatchResult, Sample]:
    """Write a block in one transaction: its rows, its rejects, the checkpoint and the counters."""
    block = read.block
    begun = time.perf_counter()
    with transaction(tools.pool) as connection:
        connected = time.perf_counter()
        tools.hold(connection, lease)
        result = load_batch(connection, read.context, read.validated, direct=direct)
        following = {"range": read.range_index, "start": block.following.start, "line": block.following.line}
        tools.checkpoint(connection, lease, following)
        sample = Sample(
            rows=read.validated.read,
            bytes=block.size,
            seconds=time.perf_counter() - connected,
            waited_seconds=connected - begun,
        )
        step = sizer.observe(sample)
        persist.record(connection, tools.job.job_id, tools.worker, [step])
        progress.add(connection, tools.job.job_id, result.counts, batches=1)
    return result, sample


def abort_if_broken(tools: Tools, plan: Plan) -> bool:
    """Abort the import if more records were rejected than it accepts, and tell whether it is over."""
    policy = plan.request.policy
    if policy.most is None and policy.percent is None:
        return False
    with transaction(tools.pool) as connection:
        reason = policy.broken_by(progress.read(connection, tools.job.job_id).counts, at_end=False)
    if reason is None:
        return False
    with suppress(WrongState), transaction(tools.pool) as connection:  # somebody may have cancelled it just now
        jobs.fail(connection, tools.job.job_key, reason)
    return True
