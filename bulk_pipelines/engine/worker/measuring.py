"""What is measured and told of a worker's slices and flushes. It costs something for each of these, and nothing for an
item that succeeds."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.items.settling import Settled
from bulk_pipelines.engine.measures import catalogue, recording
from bulk_pipelines.engine.states import ItemEvent
from bulk_pipelines.engine.worker.retry import Settlement
from bulk_pipelines.telemetry import events

if TYPE_CHECKING:
    from bulk_pipelines.engine.worker.work import Tally

OUTCOMES = {
    ItemEvent.SUCCEED: "succeeded",
    ItemEvent.MISS: "not_found",
    ItemEvent.SKIP: "skipped",
    ItemEvent.RETRY: "retried",
    ItemEvent.BURY: "buried",
    ItemEvent.GIVE_BACK: "given_back",
}
"""What an item's event counts as."""

UNTOLD = {ItemEvent.SUCCEED, ItemEvent.GIVE_BACK}
"""Events of which no line is logged."""


@dataclass(frozen=True)
class Flush:
    """A batch that was written, and what it cost."""

    batch: Sequence[Settled]
    lost: int
    """How many of its outcomes were dropped, because their leases were gone."""
    seconds: float
    waited: float
    """How many of these seconds went by until there was a connection."""
    latency: float
    """The seconds since the first of its outcomes was there."""
    fullness: float
    """How full the buffer was, from 0 to 1."""
    vain_tries: int


def unheard(_: Flush) -> None:
    """Nobody measures any flush."""


class Observer:
    """Measures the work of one worker, and tells of it."""

    def __init__(self, pool: Engine, kind: str) -> None:
        self.kind = kind
        self.measures = recording.of(pool)

    def flushed(self, flush: Flush) -> None:
        kind, note = self.kind, self.measures
        note.batch("settle", len(flush.batch), flush.seconds - flush.waited, flush.waited)
        for _ in range(flush.vain_tries):
            note.rolled_back("settle")
        note.observe(catalogue.FLUSH_ITEMS, len(flush.batch), kind)
        note.observe(catalogue.SETTLE_SECONDS, flush.latency, kind)
        note.observe(catalogue.BUFFER_SHARE, flush.fullness, kind)
        note.count(catalogue.LEASES_LOST, kind, by=flush.lost)
        counts = Counter(each.settlement.event for each in flush.batch)
        for event, outcome in OUTCOMES.items():
            note.count(catalogue.ITEMS, kind, outcome, by=counts[event])
        if events.told(logging.DEBUG):
            events.debug(
                "flush",
                batch_size=len(flush.batch),
                rows_updated=len(flush.batch) - flush.lost,
                duration_ms=round(flush.seconds * 1000, 1),
            )

    def worked(self, tally: "Tally", seconds: float) -> None:
        """Note a slice that is over."""
        if tally.total:
            self.measures.observe(catalogue.ITEM_SECONDS, seconds / tally.total, self.kind, times=tally.total)
        if tally.failed:
            events.info("items failed", items=tally.total, failed=tally.failed, throttled=tally.throttled or None)
        self.measures.write_if_due()

    def decided(self, lease: Lease, settlement: Settlement) -> None:
        """Tell what was decided about an item that did not succeed."""
        if settlement.event not in UNTOLD and events.told(logging.DEBUG):
            events.debug(
                f"item {OUTCOMES[settlement.event]}",
                item_id=lease.item_id,
                item_key=lease.item_key,
                attempt=lease.attempt_count,
                error_class=settlement.error_class,
                error=settlement.error,
                delay_seconds=None if settlement.delay is None else round(settlement.delay, 3),
            )
