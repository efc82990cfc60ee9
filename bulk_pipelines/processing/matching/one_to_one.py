"""An assignment that matches no entry twice. The surest row takes its entry first; other rows that wanted it are judged
anew without it."""

import heapq
from collections import defaultdict
from collections.abc import Sequence
from math import exp

import numpy as np

from bulk_pipelines.processing.matching.model import Model
from bulk_pipelines.processing.matching.scoring import Scored


def assigned(batches: Sequence[Scored], model: Model) -> list[Scored]:
    """Return the batches without the pairs whose entry another row has taken."""
    wanting = _Wanting(batches, model)
    wanting.give_away()
    kept, before = [], 0
    for scored in batches:
        rows = (scored.pairs.row + before).tolist()
        free = [
            wanting.taken.get(entry, row) == row for row, entry in zip(rows, scored.pairs.entry.tolist(), strict=True)
        ]
        kept.append(scored.where(np.array(free, np.bool_)))
        before += scored.size
    return kept


class _Wanting:
    """Which rows still want which entries."""

    def __init__(self, batches: Sequence[Scored], model: Model) -> None:
        self.model = model
        self.wishes: dict[int, dict[int, float]] = defaultdict(dict)
        self.wanted_by: dict[int, list[int]] = defaultdict(list)
        self.taken: dict[int, int] = {}
        before = 0
        for scored in batches:
            each = zip(scored.pairs.row.tolist(), scored.pairs.entry.tolist(), scored.strength.tolist(), strict=True)
            for row, entry, strength in each:
                self.wishes[row + before][entry] = strength
                self.wanted_by[entry].append(row + before)
            before += scored.size

    def give_away(self) -> None:
        """Give entries away, the surest first, until no row is sure of a free one."""
        queue = [wish for row in self.wishes if (wish := self._surest(row))]
        heapq.heapify(queue)
        given: set[int] = set()
        while queue:
            wish = heapq.heappop(queue)
            _, row, entry = wish
            if row in given or wish != self._surest(row):
                continue  # an entry was taken since; the row has been put into the queue anew
            given.add(row)
            self.taken[entry] = row
            for other in self.wanted_by[entry]:
                if other not in given:
                    del self.wishes[other][entry]
                    if again := self._surest(other):
                        heapq.heappush(queue, again)

    def _surest(self, row: int) -> tuple[float, int, int] | None:
        """Return the row's match among the entries that are free, if it is sure of one; the surest row sorts first."""
        wishes = self.wishes[row]
        if not wishes:
            return None
        ranked = sorted(wishes, key=lambda entry: (-wishes[entry], entry))[:2]
        highest = wishes[ranked[0]]
        total = exp(-highest) + sum(exp(strength - highest) for strength in wishes.values())
        first, second = 1 / total, exp(wishes[ranked[1]] - highest) / total if len(ranked) > 1 else 0.0
        if first < self.model.threshold or first - second < self.model.margin:
            return None
        return (-first, row, ranked[0])
