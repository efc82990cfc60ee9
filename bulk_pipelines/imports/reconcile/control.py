"""What reconciling an import's records asks of its job, and what it tells the job."""

from collections.abc import Callable
from dataclasses import dataclass

from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.imports.counts import Counts


@dataclass(frozen=True)
class Control:
    more_may_come: bool
    """Whether a range is in the DLQ: after a redrive its records may be the first or the last ones of a key."""
    note: Callable[[Connection, Counts], None]
    """Adds to the counts of the import, in the given transaction, what this transaction changes."""
    complete: Callable[[Begin], None]
    """Reads again, and stores with their rejects, the records that were rejected without being at hand."""
    accepts: Callable[[Connection, int], bool]
    """Tells whether the import accepts so many more rejects than those already counted."""
    at_work: Callable[[Connection], bool]
    """Tells whether the import is still running: nobody has paused or cancelled it."""
    end: Callable[[Connection], bool]
    """Ends the job in the given transaction; false if the job may no longer end."""
