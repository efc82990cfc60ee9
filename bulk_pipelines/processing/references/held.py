"""The indexes of this process. An index is built once, and kept for as long as its reference does not change."""

import threading
import time
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, replace

from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.processing.matching.index import Index, build
from bulk_pipelines.processing.references import files, rows
from bulk_pipelines.processing.references.declaration import Reference

LOOK_SECONDS = 60.0
"""How long an index is used for one asker before somebody looks whether its reference has changed."""
MOST_ENTRIES = 2_000_000
"""How many entries are held for several references together. A single reference may have more."""


Name = tuple[str, Reference]
"""The database and the reference."""


@dataclass(frozen=True)
class Kept:
    index: Index
    version: str
    asker: str
    looked_at: float


class Held:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.building: dict[Name, threading.Lock] = defaultdict(threading.Lock)
        self.kept: OrderedDict[Name, Kept] = OrderedDict()

    def of(self, pool: Engine, reference: Reference, asker: str) -> Index:
        """Return the index of a reference. An asker, such as a job, gets the reference as it is now when it asks for
        the first time; when it asks again, the index may be a minute old."""
        name = (pool.url.render_as_string(), reference)
        with self.lock:
            building = self.building[name]
        with building:
            with self.lock:
                kept = self.kept.get(name)
            if kept is None or kept.asker != asker or time.monotonic() - kept.looked_at > LOOK_SECONDS:
                kept = None  # the old index is let go before another is built
                kept = self.look(pool, name, asker)
            with self.lock:
                self.kept[name] = kept
                self.kept.move_to_end(name)
                self.make_room()
            return kept.index

    def look(self, pool: Engine, name: Name, asker: str) -> Kept:
        """Build the index of a reference, unless the index that is held was built of the same rows."""
        _, reference = name
        if reference.file:
            files.load_missing(pool, reference, settings.current())
        with rows.opened(pool, reference) as (connection, relation):
            version = relation.version(connection)
            with self.lock:
                if name in self.kept and self.kept[name].version != version:
                    del self.kept[name]
                kept = self.kept.get(name)
            if kept is None:
                kept = Kept(build(relation.entries(connection)), version, asker, 0.0)
        return replace(kept, asker=asker, looked_at=time.monotonic())

    def make_room(self) -> None:
        """Drop the indexes that were asked for longest ago."""
        while len(self.kept) > 1 and sum(len(each.index) for each in self.kept.values()) > MOST_ENTRIES:
            self.kept.popitem(last=False)


HELD = Held()
