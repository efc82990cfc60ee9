"""Reconciling the records of an import: what only the whole file can tell comes out the same, in whatever order the
batches were loaded.

`reconcile` may be killed at any moment and called again: each step finds in the database what is left to do.
"""

from bulk_pipelines.database.pool import Begin
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.plan.inspect.layout import Layout
from bulk_pipelines.imports.reconcile import first_wins, last_wins, set_aside
from bulk_pipelines.imports.reconcile.control import Control


def reconcile(begin: Begin, context: ImportContext, layout: Layout, control: Control) -> bool:
    """Decide about the records that wait aside, and complete the rejects whose records were not at hand. For an insert
    without conflicts these are a few look-ups. Return false if the import was overtaken, by a pause or a cancellation
    for instance; then it is not to be ended."""
    with begin() as connection:
        is_open = set_aside.is_any(connection, context)
    if is_open:
        match context.mode:
            case Mode.INSERT:
                first_wins.reconcile_inserts(begin, context, layout, control)
            case _ if control.more_may_come:
                pass  # what is decided by the file as a whole waits until all of it has been read
            case Mode.VALIDATE:
                first_wins.reconcile_validation(begin, context, layout, control)
            case Mode.UPSERT:
                if not last_wins.reconcile_upserts(begin, context, layout, control):
                    return False
    control.complete(begin)
    return True
