"""Write the items of a job into the database before they are worked, in batches whose size is found live."""

import random as random_module
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.intake.adaptive import BatchSizer, Sample, Step
from bulk_pipelines.engine.measures import recording
from bulk_pipelines.engine.states import FINISHED_JOBS, JobState
from bulk_pipelines.engine.worker.retry import Backoff, Random
from bulk_pipelines.errors import Conflict, Unavailable

Item = tuple[str, dict[str, Any]]
"""An item's key, which is unique in its job, and its input."""

OUTAGE = Backoff(base=0.5, cap=10.0)
"""The delays between the tries of a batch while the database is away. Chance spreads them, so that those who lost the
database together do not come back to it together."""
OUTAGE_RETRIES = 7

WORKER = "persist"
"""Whose the trajectory of the batch sizes is, among those of workers."""

COPY_LINES = 512
"""How many lines are sent to COPY at a time."""

T = TypeVar("T")
OPEN_JOBS = [state for state in JobState if state not in FINISHED_JOBS]


@dataclass(frozen=True, slots=True)
class Encoded:
    """An item that was checked; its input is JSON text."""

    key: str
    input: str
    bytes: int


@dataclass(frozen=True)
class Patience:
    """What the tries of a batch go by while the database is away."""

    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    random: Random = random_module.random


PATIENCE = Patience()


def checked(items: Iterable[Item], max_bytes: int = payload.MAX_BYTES) -> Iterator[Encoded]:
    """Yield the items as they will be written. An error names the position and the field of the item that is wrong."""
    for position, (key, value) in enumerate(items):
        name = f"items[{position}]"
        encoded = payload.encode(f"{name}.input", value, max_bytes)
        yield Encoded(payload.text(f"{name}.key", key), encoded, payload.utf8_length(name, key + encoded))


def add_batch(connection: Connection, job_id: int, batch: list[Encoded]) -> int:
    """Add one batch, whole or not at all, and return how many items are new. Items whose keys the job has already stay
    as they are."""
    values = {
        "job_id": job_id,
        "keys": [each.key for each in batch],
        "inputs": [each.input for each in batch],
        "open": OPEN_JOBS,
    }
    row = connection.execute(queries.text("items", "add_items"), values).fetchone()
    if row is None:
        raise Conflict("items: the job is over or has all its items already; nothing was added")
    return int(row[0])


def copy_all(connection: Connection, job_id: int, items: Iterable[Encoded]) -> int:
    """Add all items of a job in the transaction that made the job, and seal it: the whole job exists, or nothing of it.

    COPY takes half the time of add_batch and a third of its work in this process. But COPY cannot leave out keys that
    exist already, so a plan that is to run again after a crash needs add_items.
    """
    values = {"job_id": job_id, "open": OPEN_JOBS}
    refused = Conflict("items: the job is over or has items already; nothing was added")
    job = connection.execute(queries.text("items", "empty_job"), values).fetchone()
    if job is None:
        raise refused
    added = 0
    try:
        with connection.cursor() as cursor, cursor.copy(queries.text("items", "copy_items")) as copy:
            owner, kind = job
            remaining = iter(items)
            while lines := copy_lines(job_id, owner, kind, islice(remaining, COPY_LINES)):
                copy.write("".join(lines).encode())
                added += len(lines)
    except psycopg.errors.UniqueViolation as error:
        raise Conflict(
            "items: two have the same key, or somebody else adds the same ones; nothing was added"
        ) from error
    # The job is looked at again: it was not locked while the items came.
    if connection.execute(queries.text("items", "seal_copied"), values | {"added": added}).rowcount != 1:
        raise refused
    return added


def add_items(
    pool: Engine,
    job_id: int,
    items: Iterable[Item],
    sizer: BatchSizer,
    patience: Patience = PATIENCE,
) -> int:
    """Add all items, with one transaction for each batch, and return how many are new.

    When it runs again after a crash, it adds the items that are missing.
    """

    def add(connection: Connection, piece: list[Encoded]) -> int:
        return add_batch(connection, job_id, piece)

    remaining = checked(items)
    added = 0
    batch: list[Encoded] = []
    while batch or (batch := next_batch(remaining, sizer)):
        written, new = write(pool, job_id, batch, sizer, add, patience)
        batch = batch[written:]
        added += new
    return added


def copy_items(
    pool: Engine,
    job_id: int,
    items: Iterable[Encoded],
    sizer: BatchSizer,
    *,
    before: int,
) -> int:
    """Add items by COPY, with one transaction for each batch, and return how many the job has then.

    The items come in an order that never changes, and those that the job has already, `before` of them, are left out by
    the caller. So the number of the job's items says how far an earlier try came. When somebody else adds items to the
    job at the same time, this raises `Conflict`.
    """

    def copy(connection: Connection, batch: list[Encoded]) -> None:
        copy_batch(connection, job_id, batch, there)

    remaining = iter(items)
    there = before
    with ThreadPoolExecutor(1, "intake") as ahead:
        coming = ahead.submit(next_batch, remaining, sizer)
        while batch := coming.result():
            # The next batch is made while the server writes this one.
            coming = ahead.submit(next_batch, remaining, sizer)
            write(pool, job_id, batch, sizer, copy, PATIENCE, whole=True)
            there += len(batch)
    return there


def write(
    pool: Engine,
    job_id: int,
    batch: list[Encoded],
    sizer: BatchSizer,
    written: Callable[[Connection, list[Encoded]], T],
    patience: Patience,
    *,
    whole: bool = False,
) -> tuple[int, T]:
    """Write the first items of a batch in one transaction, as many as the sizer allows, and let the sizer judge the
    time. Return how many items these are, and what `written` returned.

    While the database is away, this is tried again with as many items as the sizer allows by then, or with the `whole`
    batch: of a try whose commit was not answered, `copy_batch` recognises the same batch alone. The steps of the
    trajectory since the last batch, failures included, are recorded in the same transaction."""
    recorded, failures = len(sizer.steps), 0
    while True:
        piece = batch if whole else batch[: sizer.rows]
        size = sum(each.bytes for each in piece)
        begun = patience.clock()
        try:
            with transaction(pool) as connection:
                connected = patience.clock()
                result = written(connection, piece)
                sample = Sample(len(piece), size, patience.clock() - connected, connected - begun)
                sizer.observe(sample)
                record(connection, job_id, WORKER, sizer.steps[recorded:])
        except (Unavailable, psycopg.OperationalError):
            failures += 1
            if failures > OUTAGE_RETRIES:
                raise
            recording.of(pool).rolled_back("persist")
            sizer.observe(Sample(len(piece), size, patience.clock() - begun, failed=True))
            patience.sleep(OUTAGE.delay(failures, patience.random))
        else:
            persisted(pool, sample)
            return len(piece), result


def persisted(pool: Engine, sample: Sample) -> None:
    note = recording.of(pool)
    note.batch("persist", sample.rows, sample.seconds, sample.waited_seconds)
    note.write_if_due()


def copy_batch(connection: Connection, job_id: int, batch: list[Encoded], before: int) -> None:
    """Add one batch by COPY to a job that has `before` items. The batch is there already when the answer to its commit
    was lost."""
    values = {"job_id": job_id, "open": OPEN_JOBS}
    job = connection.execute(queries.text("items", "job_to_fill"), values).fetchone()
    if job is None:
        raise Conflict("items: the job is over or has all its items already; nothing was added")
    owner, kind, there = job
    if there == before + len(batch):
        return
    if there != before:
        raise Conflict(
            f"items: somebody else adds items to the job: it has {there:,}, not {before:,}; nothing was added"
        )
    lines = copy_lines(job_id, owner, kind, batch)
    with connection.cursor() as cursor, cursor.copy(queries.text("items", "copy_items")) as copy:
        for start in range(0, len(lines), COPY_LINES):
            copy.write("".join(lines[start : start + COPY_LINES]).encode())
    connection.execute(queries.text("items", "count_copied"), {"job_id": job_id, "added": len(batch)})


def copy_lines(job_id: int, owner: str, kind: str, items: Iterable[Encoded]) -> list[str]:
    """Return the items as lines of COPY."""
    same = f"\t{copied(owner)}\t{copied(kind)}\t"
    return [f"{job_id}\t{copied(each.key)}{same}{copied(each.input)}\n" for each in items]


def copied(text: str) -> str:
    """Return the text as a field of COPY."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if not text.isprintable():
        text = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return text


def next_batch(items: Iterator[Encoded], sizer: BatchSizer) -> list[Encoded]:
    """Take the next batch, bounded by rows and by bytes. Only its last item may go beyond the bound of bytes."""
    batch: list[Encoded] = []
    size = 0
    while len(batch) < sizer.rows and size < sizer.max_bytes and (item := next(items, None)) is not None:
        batch.append(item)
        size += item.bytes
    return batch


def record(connection: Connection, job_id: int, worker: str, steps: list[Step]) -> None:
    """Keep the trajectory of the batch sizes for people to look at; new steps continue the worker's earlier ones."""
    values = {
        "job_id": job_id,
        "worker": worker,
        "rows": [step.sample.rows for step in steps],
        "bytes": [step.sample.bytes for step in steps],
        "seconds": [step.sample.seconds for step in steps],
        "next_rows": [step.next_rows for step in steps],
        "reasons": [str(step.reason) for step in steps],
    }
    connection.execute(queries.text("jobs", "add_batch_steps"), values)
