"""The files of one claim, read from the database some hundreds at a time, just before they are wanted.

Memory is bounded: an input of too many rows is streamed, and how many inputs are read together depends on how large
their files were lately.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.distribution.files import data
from bulk_pipelines.distribution.files.data import Content, Query
from bulk_pipelines.distribution.request import Input
from bulk_pipelines.errors import Permanent

BYTES_TOGETHER = 8 << 20
MOST_TOGETHER = 500
FIRST_TOGETHER = 32

log = logging.getLogger(__name__)


@dataclass
class Weight:
    """How many files are read together, by how large the last ones were. A worker keeps this from claim to claim."""

    together: int = FIRST_TOGETHER

    def observe(self, files: int, size: int) -> None:
        fitting = BYTES_TOGETHER * files // max(size, 1)
        # The number grows by degrees, because the next files may be larger.
        self.together = max(1, min(fitting, self.together * 4, MOST_TOGETHER))


class Contents:
    def __init__(self, pool: Engine, query: Query, wanted: Iterable[tuple[int, Input]], weight: Weight) -> None:
        self.pool = pool
        self.query = query
        self.weight = weight
        self.coming = deque(wanted)
        self.unread = {item_id for item_id, _ in self.coming}
        self.ready: dict[int, Content | None] = {}
        self.lock = threading.Lock()

    def take(self, item_id: int) -> Content | None:
        """Return the file of an item; it can be taken once. None: the file is to be streamed, because it is too large
        to be read with others, or because it was to be used again, so that it was not read here, and is gone."""
        with self.lock:
            while item_id in self.unread:
                self.fetch()
            return self.ready.pop(item_id, None)

    def fetch(self) -> None:
        count = min(self.weight.together, len(self.coming))
        part = [self.coming[position] for position in range(count)]
        try:
            found = data.read(self.pool, self.query, [wanted for _, wanted in part])
        except Permanent as error:
            # The query may fail for one of the inputs. Each is read by itself then, and fails by itself.
            log.warning("the data of %d inputs cannot be read together: %s", count, error)
            found = [None] * count
        for item_id, _ in part:
            self.coming.popleft()
            self.unread.remove(item_id)
        self.ready.update(zip((item_id for item_id, _ in part), found, strict=True))
        self.weight.observe(count, sum(len(each.data) for each in found if each is not None))
