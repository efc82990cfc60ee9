"""Writing what items came to: one statement for a batch of them, fenced by their terms, the job's counters with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from bulk_pipelines.database import queries
from bulk_pipelines.engine import jobs, payload, retry
from bulk_pipelines.engine.retry import Settlement
from bulk_pipelines.engine.states import JOB_MOVES, ItemEvent, JobEvent, JobState, sources
from bulk_pipelines.errors import InvalidInput

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """An item, the term under which it was worked, and what is to be written."""

    item_id: int
    lease_term: int
    settlement: Settlement


Record = Callable[[Connection, Sequence[Settled]], None]


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch of settlements did to its job."""

    lost: tuple[Settled, ...]
    """Their leases were gone: nothing of them was written."""
    job_status: JobState | None
    """None when nothing was written at all."""
    open_items: int | None

    def succeeded(self, batch: Sequence[Settled]) -> list[Settled]:
        """Those of the batch whose success was written."""
        lost = {each.item_id for each in self.lost}
        return [each for each in batch if each.settlement.event is ItemEvent.SUCCEED and each.item_id not in lost]


def write(connection: Connection, job_id: int, batch: Sequence[Settled], *, rescue: bool = False) -> Written:
    ordered = sorted(batch, key=lambda settled: settled.item_id)
    values = columns(ordered) | {
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
        # The cancel came while these were being worked: nobody else will look at them again.
        open_items -= jobs.cancel_some(connection, job_id)
    written = None if settled_ids is None else set(settled_ids)
    lost = () if written is None else tuple(each for each in ordered if each.item_id not in written)
    return Written(lost, None if status is None else JobState(status), open_items)


def columns(batch: Sequence[Settled]) -> dict[str, list[Any]]:
    settlements = [each.settlement for each in batch]
    return {
        "item_ids": [each.item_id for each in batch],
        "lease_terms": [each.lease_term for each in batch],
        "statuses": [each.status for each in settlements],
        "delays": [each.delay for each in settlements],
        "results": [encoded("result", each.result) for each in settlements],
        "normalized": [encoded("normalized", each.normalized) for each in settlements],
        "error_classes": [each.error_class for each in settlements],
        "errors": [each.error for each in settlements],
    }


def encoded(field: str, value: dict[str, Any] | None) -> str | None:
    return None if value is None else payload.encode(field, value)


def writable(batch: Sequence[Settled]) -> list[Settled]:
    """Each as it is; or buried, when what its handler came to cannot be written: the others must not suffer for it."""
    found = []
    for each in batch:
        try:
            columns([each])
            found.append(each)
        except InvalidInput as error:
            found.append(replace(each, settlement=retry.buried(f"what its handler came to cannot be written: {error}")))
    return found


def settled_before(connection: Connection, batch: Sequence[Settled]) -> set[int]:
    """Which of these were settled under their own term after all, in a commit whose answer was lost."""
    values = {
        "item_ids": [each.item_id for each in batch],
        "lease_terms": [each.lease_term for each in batch],
    }
    return {row[0] for row in connection.execute(queries.text("items", "items_settled_by"), values)}
