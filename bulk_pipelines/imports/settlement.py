"""The end of an import: what only the whole file can tell, done the same whatever the order in which batches came.

`settle` may be killed at any moment and called again: each step finds in the database what is left to do.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from bulk_pipelines.imports import first_wins, last_wins, unread, waiting
from bulk_pipelines.imports.counts import Counts
from bulk_pipelines.imports.cutting import Range
from bulk_pipelines.imports.layout import Layout
from bulk_pipelines.imports.source import Source
from bulk_pipelines.imports.terms import Mode, Terms

Connection = psycopg.Connection[Any]
Begin = Callable[[], AbstractContextManager[Connection]]
"""Opens a transaction, committed at the end of its block."""
Note = Callable[[Connection, Counts], None]
"""Called in each transaction with what it changes in the counts, to be written down with it."""


def settle(begin: Begin, terms: Terms, source: Source, layout: Layout, ranges: list[Range], note: Note) -> None:
    """Settles what waits aside, and completes the rejects whose records were not at hand. For a file without conflicts
    this is two look-ups."""
    with begin() as connection:
        is_open = waiting.is_any(connection, terms)
    if is_open:
        match terms.mode:
            case Mode.INSERT:
                first_wins.settle_inserts(begin, terms, layout, note)
            case Mode.VALIDATE:
                first_wins.settle_validation(begin, terms, layout, note)
            case Mode.UPSERT:
                last_wins.settle_upserts(begin, terms, layout, note)
    unread.complete(begin, terms, source, layout, ranges)
