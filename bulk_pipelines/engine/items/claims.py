"""Which claims of a worker are over.

Each claim has a row that names the items it took. By these rows the rescue and the pages find the items that are held;
an index on the leases would cost every item another write. The row is deleted when all its items are settled, or after
the rescue of the items that were left.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.items.leases import Lease


class Claims:
    """The claims of one worker that may not be over yet."""

    def __init__(self) -> None:
        self.taken: dict[int, list[int]] = {}
        """The ids of the items that each claim took, by the claim's id."""

    def over(self, unsettled: AbstractSet[int]) -> list[int]:
        """Return the ids of the claims of which no item is unsettled."""
        return [claim_id for claim_id, item_ids in self.taken.items() if unsettled.isdisjoint(item_ids)]

    def add(self, claimed: Sequence[Lease]) -> None:
        """Note a new claim. Call this when its items are held already, because a claim without held items counts as
        over."""
        self.taken[claimed[0].claim_id] = [lease.item_id for lease in claimed]

    def drop(self, over: Sequence[int]) -> None:
        """Forget these claims, whose rows have been deleted."""
        for claim_id in over:
            del self.taken[claim_id]


def forget(connection: Connection, over: Sequence[int]) -> None:
    """Delete the rows of these claims. A worker that claims no more calls this; else the worker's next claim deletes
    them."""
    connection.execute(queries.text("items", "forget_claims"), {"over": list(over)})
