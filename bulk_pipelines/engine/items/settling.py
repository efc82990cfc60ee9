"""Write the outcomes of items: one statement settles a batch, fenced by its items' terms, and moves the job's
counters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine import outcomes
from bulk_pipelines.engine.intake import payload
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.states import JOB_MOVES, ItemEvent, JobEvent, JobState, sources
from bulk_pipelines.engine.worker import retry
from bulk_pipelines.engine.worker.retry import Settlement
from bulk_pipelines.errors import InvalidInput


class Settled(NamedTuple):
    """An item, the term under which it was worked, and the settlement to write for it."""

    item_id: int
    lease_term: int
    settlement: Settlement


MOST_JSON = 64 * 1024 * 1024
"""The most characters of JSON in one statement. PostgreSQL would accept a gigabyte, but client and server would then
each need as much memory."""

VALUE_ERRORS = {"22", "23", "54"}
"""Classes of SQLSTATE that are about values: data exceptions, violated constraints, and exceeded limits."""

Record = Callable[[Connection, Sequence[Settled]], None]
"""Writes what else the database says of items that succeeded, in the transaction that settles them."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch of settlements did to its job."""

    lost: tuple[Settled, ...]
    """The settlements that were not written, because their leases were gone."""
    job_status: JobState | None
    """The state of the job afterwards; None when nothing was written at all."""
    open_items: int | None

    def succeeded(self, batch: Sequence[Settled]) -> list[Settled]:
        """Return the settlements of the batch whose success was written."""
        lost = {each.item_id for each in self.lost}
        return [each for each in batch if each.settlement.event is ItemEvent.SUCCEED and each.item_id not in lost]


def write(connection: Connection, job_id: int, batch: Sequence[Settled], *, rescue: bool = False) -> Written:
    """Settle a batch of items of one job. A batch whose JSON is too large for one statement is written in halves."""
    ordered = sorted(batch, key=lambda settled: settled.item_id)
    given = columns(ordered)
    if len(ordered) > 1 and sum(len(given[name] or "") for name in ("results", "normalized")) > MOST_JSON:
        half = len(ordered) // 2
        first, second = (write(connection, job_id, part, rescue=rescue) for part in (ordered[:half], ordered[half:]))
        last = first if second.job_status is None else second
        return Written(first.lost + second.lost, last.job_status, last.open_items)
    values = given | {
        "job_id": job_id,
        "rescue": rescue,
        "failable": sources(JOB_MOVES, JobEvent.FAIL),
    }
    with connection.cursor() as cursor:
        cursor.execute(queries.text("items", "settle_items"), values)
        row = cursor.fetchone()
    assert row is not None, "counts always make a row"
    waiting, status, open_items, settled_ids = row
    if status == JobState.CANCELLED and waiting:
        # The job was cancelled while these items were in work; they wait now, and nobody else would cancel them.
        open_items -= jobs.cancel_some(connection, job_id)
    written = None if settled_ids is None else set(settled_ids)
    lost = () if written is None else tuple(each for each in ordered if each.item_id not in written)
    return Written(lost, None if status is None else JobState(status), open_items)


def columns(batch: Sequence[Settled]) -> dict[str, Any]:
    """Return one parameter for each column. Arrays are sent as one text where that is possible: adapting them value by
    value would cost more than all the rest."""
    settlements = [each.settlement for each in batch]
    return terms(batch) | {
        "statuses": literal(each.status for each in settlements),
        "delays": unless_empty([each.delay for each in settlements]),
        "results": objects("result", [each.result for each in settlements]),
        "normalized": objects("normalized", [each.normalized for each in settlements]),
        "error_classes": unless_empty([each.error_class for each in settlements]),
        "errors": unless_empty([each.error for each in settlements]),
        "uncounted": unless_empty([None if each.counted else True for each in settlements]),
    }


def terms(batch: Sequence[Settled]) -> dict[str, str]:
    return {
        "item_ids": literal(str(each.item_id) for each in batch),
        "lease_terms": literal(str(each.lease_term) for each in batch),
    }


def literal(values: Iterable[str]) -> str:
    """Return a PostgreSQL array literal of words that need no quotes."""
    return "{" + ",".join(values) + "}"


def unless_empty(values: list[Any]) -> list[Any] | None:
    """Return None instead of an array that holds only None, as most batches have for most columns."""
    return None if all(value is None for value in values) else values


def objects(field: str, values: list[dict[str, Any] | None]) -> str | None:
    return None if all(value is None for value in values) else payload.encode_all(field, values)


def writable(batch: Sequence[Settled]) -> list[Settled]:
    """Return the batch with a burial in place of each settlement that cannot be written, so that the other items do not
    suffer for it."""
    found = []
    for each in batch:
        try:
            columns([each])
            found.append(each)
        except Exception as error:  # noqa: BLE001 - encoding a handler's own object runs that object's code
            found.append(unwritable(each, error))
    return found


def unwritable(each: Settled, error: Exception) -> Settled:
    """Return a burial of the item in place of a settlement that cannot be written."""
    said = (
        outcomes.text(error) if isinstance(error, InvalidInput) else f"{type(error).__name__}: {outcomes.text(error)}"
    )
    return each._replace(settlement=retry.buried(f"what its handler came to cannot be written: {said}"))


def is_about_values(error: Exception) -> bool:
    """Whether a write failed because of its values: PostgreSQL refused them, or they could not be prepared for it.
    False when the database itself is the reason: a table is missing, for instance, or may only be read."""
    if not isinstance(error, psycopg.Error):
        return True
    return error.sqlstate is None or error.sqlstate[:2] in VALUE_ERRORS


def settled_before(connection: Connection, batch: Sequence[Settled]) -> set[int]:
    """Return the ids of items that were settled under their own term after all, by a commit whose answer was lost."""
    return {row[0] for row in connection.execute(queries.text("items", "items_settled_by"), terms(batch))}
