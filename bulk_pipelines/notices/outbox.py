"""The outbox is emptied: events become notices to subscribers, and numbers for the metrics. An event leaves the outbox
in the transaction that writes what follows from it, so each event is told, and none twice."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.measures import ends
from bulk_pipelines.engine.measures.recording import Measures, encoded
from bulk_pipelines.notices import events, submission, subscriptions
from bulk_pipelines.notices.events import Event, Notice
from bulk_pipelines.notices.request import EventType, Subscription

log = logging.getLogger(__name__)

AT_A_TIME = 500
FAILURES = 3
"""How many looks in a row a source must leave without an answer to count as down. A single one may be a restart."""


@dataclass(frozen=True)
class Emptied:
    """What a pass did."""

    events: int = 0
    notices: int = 0
    jobs: tuple[str, ...] = ()

    def __add__(self, other: "Emptied") -> "Emptied":
        return Emptied(self.events + other.events, self.notices + other.notices, self.jobs + other.jobs)


def run_once(pool: Engine) -> Emptied:
    """Empty the outbox, in bounded transactions."""
    done = Emptied()
    while True:
        with transaction(pool) as connection:
            some = empty_some(connection)
        done += some
        if some.events < AT_A_TIME:
            return done


def is_anything_due(connection: Connection) -> bool:
    row = connection.execute(queries.text("notices", "is_anything_due")).fetchone()
    return bool(row and row[0])


def empty_some(connection: Connection) -> Emptied:
    ours = connection.execute(queries.text("notices", "one_at_a_time")).fetchone()
    if ours is None or not ours[0]:
        return Emptied()
    taken = sorted(map(Event._make, connection.execute(queries.text("notices", "take_events"), {"most": AT_A_TIME})))
    known = subscriptions.every(connection)
    counted = Measures(None)
    found = [each for event in taken for each in followed(event, known, counted)]
    if any(each.of_sources for subscription in known for each in subscription.types):
        found += of_sources(connection)
    jobs = (submission.submit(connection, found).job.job_key,) if found else ()
    # The sums are written last, because other processes write the same rows, too, and would wait for this transaction.
    if counted.sums:
        connection.execute(queries.text("measures", "add_measures"), {"given": encoded(counted.sums)})
    return Emptied(len(taken), len(found), jobs)


def followed(event: Event, known: Sequence[Subscription], counted: Measures) -> list[Notice]:
    """Count an event, and return the notices that follow from it. An event that cannot be understood is logged and
    dropped, because it would keep all others from being told."""
    try:
        if event.type == EventType.JOB_ENDED:
            ends.note(counted, event.data)
        return list(events.notices(event, known))
    except Exception:
        log.exception("event %d of %s cannot be told: %s", event.event_id, event.subject, event.data)
        return []


def id_of(event_type: str, source: str, told_at: datetime) -> str:
    """Return the id of a notice about a source. The id stands in a header, which may not allow a source's name."""
    digest = hashlib.sha256(f"{event_type} {told_at.isoformat()} {source}".encode()).hexdigest()
    return f"evt_{digest[:24]}"


def of_sources(connection: Connection) -> list[Notice]:
    """Return the notices about sources that are due now."""
    rows = connection.execute(queries.text("notices", "tell_of_sources"), {"failures": FAILURES})
    return [
        Notice(
            subscription_id,
            id_of(event_type, source, told_at),
            EventType(event_type),
            told_at,
            None,
            {
                "source": source,
                "error": error,
                "last_file_at": None if last_file_at is None else last_file_at.isoformat(),
            },
        )
        for subscription_id, source, event_type, told_at, error, last_file_at in rows
    ]
