"""Which claims of a worker are over.

A claim names what it took in a row of its own: there the rescue and the pages find what is held, where an index on the
leases would cost every item a write. The row goes when all of it is settled, or after the rescue of what was left.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.items.leases import Lease


class Claims:
    """Those of one worker that may not be over yet."""

    def __init__(self) -> None:
        self.taken: dict[int, list[int]] = {}
        """The items of each."""

    def over(self, unsettled: AbstractSet[int]) -> list[int]:
        return [claim_id for claim_id, item_ids in self.taken.items() if unsettled.isdisjoint(item_ids)]

    def add(self, claimed: Sequence[Lease]) -> None:
        """When they are held: a claim of which nothing is held is over."""
        self.taken[claimed[0].claim_id] = [lease.item_id for lease in claimed]

    def drop(self, over: Sequence[int]) -> None:
        """Their rows are gone."""
        for claim_id in over:
            del self.taken[claim_id]


def forget(connection: Connection, over: Sequence[int]) -> None:
    """Of a worker that claims no more."""
    connection.execute(queries.text("items", "forget_claims"), {"over": list(over)})
