"""The grid as a file that can be imported into a table, beside the landed ones."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from sqlalchemy import Engine

from bulk_pipelines.errors import BulkError
from bulk_pipelines.processing.intake import sources
from bulk_pipelines.processing.report import grid
from bulk_pipelines.processing.report.grid import GridFormat
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import access_of


@dataclass(frozen=True)
class Written:
    url: str
    key: str
    """What stands for the content: the same grid has the same key."""


@contextmanager
def written(pool: Engine, job_key: str, outcomes: Sequence[str], chosen: Settings) -> Iterator[Written]:
    """Write the grid for as long as the block lasts."""
    name, digest = f"{job_key}/grid.csv", hashlib.sha256()
    with locations.folder(sources.folder(chosen), access_of(chosen), "BULK_LANDING_URL") as storage:
        pieces = grid.written(pool, job_key, GridFormat.CSV, outcomes)
        with closing(pieces), storage.publish(name) as sink:
            for piece in pieces:
                digest.update(piece)
                sink.write(piece)
        try:
            yield Written(storage.url_of(name), f"grid of {job_key}: {digest.hexdigest()[:32]}")
        finally:
            with suppress(BulkError):
                storage.delete(name)
