"""What the job of an import has to say, and to be told, while its records are reconciled."""

from collections.abc import Callable
from dataclasses import dataclass

from bulk_pipelines.database.pool import Begin, Connection
from bulk_pipelines.imports.counts import Counts


@dataclass(frozen=True)
class Control:
    more_may_come: bool
    """A range is in the DLQ: after a redrive its records may be the first or the last ones of a key."""
    note: Callable[[Connection, Counts], None]
    """Writes down, with a transaction, what it changes in the counts."""
    complete: Callable[[Begin], None]
    """Reads the records again that were rejected while they were not at hand."""
    accepts: Callable[[Connection, int], bool]
    """Whether the import accepts so many rejects more than are written down."""
    at_work: Callable[[Connection], bool]
    """Whether nobody has paused or cancelled the import."""
    end: Callable[[Connection], bool]
    """Ends the job in this transaction; false if it may not end any more."""
