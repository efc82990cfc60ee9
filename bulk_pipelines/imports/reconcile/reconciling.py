"""The end of an import: what only the whole file can tell, done the same whatever the order in which batches came.

`reconcile` may be killed at any moment and called again: each step finds in the database what is left to do.
"""

from bulk_pipelines.database.pool import Begin
from bulk_pipelines.imports.context import ImportContext, Mode
from bulk_pipelines.imports.plan.layout import Layout
from bulk_pipelines.imports.reconcile import first_wins, last_wins, set_aside
from bulk_pipelines.imports.reconcile.control import Control


def reconcile(begin: Begin, context: ImportContext, layout: Layout, control: Control) -> bool:
    """Settle what waits aside, and complete the rejects whose records were not at hand. For a file without conflicts
    these are two look-ups. False: the import was paused or cancelled in the middle, and is not to be ended."""
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
