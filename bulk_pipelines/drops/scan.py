"""Sources are scanned: each is looked at, and its files are put away whose imports are over. Sensors do this all the
time; people may ask for it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.drops import ledger, look, put_away, sources
from bulk_pipelines.drops.look import Doors, Looked
from bulk_pipelines.drops.sources import DropSource
from bulk_pipelines.errors import BulkError, NotFound
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of
from bulk_pipelines.storage.contract import Storage

SECONDS = 30.0
"""The longest time that a scan takes which people ask for."""


@dataclass(frozen=True)
class Scanned:
    """What a scan of one source found and did."""

    looked: Looked
    cleared: int = 0
    """How many files were put away."""
    problem: str | None = None
    """Why files could not be put away."""

    @property
    def happened(self) -> bool:
        """Whether the look found something new."""
        return bool(self.looked.jobs or self.looked.stalled or self.looked.vanished)

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.looked}; {self.problem}"
        return f"{self.looked}, {self.cleared} done with" if self.cleared else str(self.looked)


def scan(
    pool: Engine,
    found: Sequence[DropSource],
    chosen: Settings,
    doors: Doors,
    seconds: float,
) -> list[Scanned]:
    """Scan some sources, those first that were not looked at for longest, within about so many seconds."""
    deadline = time.monotonic() + seconds
    with transaction(pool) as connection:
        turns = ledger.longest_unseen_first(connection, [source.name for source in found])
    scanned = []
    for source in sorted(found, key=lambda each: turns.index(each.name)):
        left = deadline - time.monotonic()
        if left > 0:
            scanned.append(scan_one(pool, source, chosen, doors, left))
        else:
            late = "the others took all the time, it comes first in the next tick"
            scanned.append(Scanned(Looked(source.name, skipped=late)))
    return scanned


def scan_one(
    pool: Engine,
    source: DropSource,
    chosen: Settings,
    doors: Doors,
    seconds: float,
) -> Scanned:
    """Look at one source, and put away its files whose imports are over."""
    opened = opener(source, chosen)
    looked = look.look(pool, source, opened, doors, min(seconds, look.LOOK_SECONDS))
    if looked.skipped:
        return Scanned(looked)
    try:
        return Scanned(looked, put_away.clear_up(pool, source, opened))
    except BulkError as error:
        with transaction(pool) as connection:
            ledger.note_answer(connection, source.name, str(error), look.FIRST_DELAY)
        return Scanned(looked, problem=str(error))


def configured(
    chosen: Settings, resources: Sequence[str], name: str | None = None, file: Path | None = None
) -> list[DropSource]:
    """Return the sources that the TOML file names, or the one of this name."""
    found = sources.load(file or chosen.drops_file, sorted(resources), chosen.home / "inbox")
    if name is None:
        return found
    named = [source for source in found if source.name == name]
    if not named:
        raise NotFound(f"there is no source {name!r}; there are {', '.join(source.name for source in found)}")
    return named


def opener(source: DropSource, chosen: Settings) -> Callable[[], Storage]:
    return lambda: locations.folder(source.where, access_of(chosen), sources.FIELD)
