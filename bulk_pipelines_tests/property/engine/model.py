"""Jobs, items and leases as they must be, by the contract alone."""

from dataclasses import dataclass, field
from typing import Any

from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.states import ItemState, JobState
from bulk_pipelines.engine.worker.retry import Tries
from bulk_pipelines_tests.scenes.engine_jobs import Row


@dataclass
class Thing:
    """An item as it must be."""

    key: str
    status: ItemState = ItemState.PENDING
    term: int = 0
    attempts: int = 0
    misses: int = 0
    deaths: int = 0
    due: bool = False
    """Whether the wait is over, if the item is in RETRY_WAIT."""
    expired: bool = False
    """Whether the lease has run out, if the item is RUNNING."""
    owner: str | None = None
    result: dict[str, Any] | None = None
    checkpoint: dict[str, Any] | None = None

    @property
    def claimable(self) -> bool:
        return self.status is ItemState.PENDING or (self.status is ItemState.RETRY_WAIT and self.due)

    @property
    def tries(self) -> Tries:
        return Tries(self.attempts, self.misses, self.deaths)


@dataclass
class Model:
    """A job as it must be."""

    job_id: int
    job_key: str
    fail_fast: bool
    state: JobState = JobState.SUBMITTED
    planned: bool = False
    things: dict[str, Thing] = field(default_factory=dict)

    def count(self, *states: ItemState) -> int:
        return sum(thing.status in states for thing in self.things.values())


@dataclass(frozen=True)
class Held:
    """A lease that somebody got once: perhaps it still is one."""

    model: Model
    lease: Lease

    @property
    def thing(self) -> Thing:
        return self.model.things[self.lease.item_key]

    @property
    def valid(self) -> bool:
        return self.thing.status is ItemState.RUNNING and self.thing.term == self.lease.lease_term


def check_row(row: Row, thing: Thing) -> None:
    assert row.status == thing.status, thing
    assert row.lease_term == thing.term, thing
    assert Tries(row.attempt_count, row.not_found_count, row.death_count) == thing.tries, thing
    assert row.checkpoint == thing.checkpoint, thing
    assert row.result == thing.result, thing
    assert (row.lease_until is not None) == (row.status == ItemState.RUNNING)
    if row.status == ItemState.DLQ:
        assert row.error_message
