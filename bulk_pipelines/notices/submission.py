"""Submitting notices: one job for all that a pass over the outbox has found."""

from collections.abc import Iterable

from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.intake import persist, submission
from bulk_pipelines.engine.jobs.submission import Request, Submitted
from bulk_pipelines.notices.events import Notice
from bulk_pipelines.notices.kind import KINDS
from bulk_pipelines.notices.request import KIND

OWNER = "notices"
"""The owner of these jobs. If subscribers owned them, a subscriber with many jobs at work would be told of nothing,
because one owner may have only so many jobs at work."""
PRIORITY = 50


def submit(connection: Connection, notices: Iterable[Notice]) -> Submitted:
    asked = Request(KIND, OWNER, {}, origin="sensor", priority=PRIORITY)
    items = persist.checked((each.key, each.as_input()) for each in notices)
    return submission.submit(connection, KINDS, asked, items)
