"""Inputs into the database first, in batches whose size is found live."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.intake.adaptive import BatchSizer, Sample, Step
from bulk_pipelines.engine.states import FINISHED_JOBS, JobState
from bulk_pipelines.errors import Conflict, Unavailable

Item = tuple[str, dict[str, Any]]
"""Its key, unique in the job, and its input."""

RETRY_DELAYS = (0.1, 0.5, 2.0, 5.0, 10.0)
"""Seconds between the tries of a batch while the database is away."""

OPEN_JOBS = [state for state in JobState if state not in FINISHED_JOBS]


@dataclass(frozen=True, slots=True)
class Encoded:
    key: str
    input: str
    bytes: int


def checked(items: Iterable[Item], max_bytes: int = payload.MAX_BYTES) -> Iterator[Encoded]:
    """Items as they will be written; what is wrong with one is said by its position and field."""
    for position, (key, value) in enumerate(items):
        name = f"items[{position}]"
        encoded = payload.encode(f"{name}.input", value, max_bytes)
        yield Encoded(payload.text(f"{name}.key", key), encoded, payload.utf8_length(name, key + encoded))


def add_batch(connection: Connection, job_id: int, batch: list[Encoded]) -> int:
    """One batch, all or nothing; keys the job has already are left as they are. Returns how many were new."""
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


def add_all(connection: Connection, job_id: int, items: Iterable[Item]) -> int:
    """All items of a job, in the transaction that made it: there is the whole job or none. It is sealed with that.

    By COPY, which takes half the time of add_batch and a third of its work here; it cannot leave out keys that are
    there already, so a plan that is to be run again after a crash needs add_items.
    """
    job = connection.execute(queries.text("items", "empty_job"), {"job_id": job_id, "open": OPEN_JOBS}).fetchone()
    if job is None:
        raise Conflict("items: the job is over or has items already; nothing was added")
    added = 0
    with connection.cursor() as cursor, cursor.copy(queries.text("items", "copy_items")) as copy:
        for each in checked(items):
            copy.write_row((job_id, each.key, *job, each.input))
            added += 1
    connection.execute(queries.text("items", "seal_copied"), {"job_id": job_id, "added": added})
    return added


def add_items(
    pool: Engine,
    job_id: int,
    items: Iterable[Item],
    sizer: BatchSizer,
    *,
    worker: str = "persist",
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """All of them, a transaction a batch; run again after a crash it adds what is missing. Returns how many are new."""
    remaining = checked(items)
    added = failures = 0
    recorded = len(sizer.steps)
    batch: list[Encoded] = []
    while batch or (batch := next_batch(remaining, sizer)):
        piece = batch[: sizer.rows]
        begun = clock()
        try:
            added += add_sized(pool, job_id, piece, sizer, worker, recorded, clock)
        except (Unavailable, psycopg.OperationalError):
            failures += 1
            if failures > len(RETRY_DELAYS):
                raise
            sizer.observe(Sample(len(piece), sum(each.bytes for each in piece), clock() - begun, failed=True))
            sleep(RETRY_DELAYS[failures - 1])
        else:
            batch = batch[len(piece) :]
            failures = 0
            recorded = len(sizer.steps)
    return added


def add_sized(
    pool: Engine,
    job_id: int,
    batch: list[Encoded],
    sizer: BatchSizer,
    worker: str,
    recorded: int,
    clock: Callable[[], float],
) -> int:
    """One batch, its size judged by the time it took and kept with it, and with the failures before it."""
    begun = clock()
    with transaction(pool) as connection:
        connected = clock()
        added = add_batch(connection, job_id, batch)
        sample = Sample(
            rows=len(batch),
            bytes=sum(each.bytes for each in batch),
            seconds=clock() - connected,
            waited_seconds=connected - begun,
        )
        sizer.observe(sample)
        record(connection, job_id, worker, sizer.steps[recorded:])
    return added


def next_batch(items: Iterator[Encoded], sizer: BatchSizer) -> list[Encoded]:
    """Bounded by rows and by bytes (the last item may pass the bound of bytes, not two)."""
    batch: list[Encoded] = []
    size = 0
    while len(batch) < sizer.rows and size < sizer.max_bytes and (item := next(items, None)) is not None:
        batch.append(item)
        size += item.bytes
    return batch


def record(connection: Connection, job_id: int, worker: str, steps: list[Step]) -> None:
    """The trajectory of the sizes, for people to look at; it goes on where the worker's last one ended."""
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
