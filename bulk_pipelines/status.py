"""What is going on in the installation: jobs by kind and state, workers, and how many items wait."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from bulk_pipelines import resources, settings
from bulk_pipelines.counted import counted
from bulk_pipelines.database import pool, queries
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.output import table
from bulk_pipelines.resources import library, written

UNFINISHED = {"SUBMITTED", "RUNNING", "PAUSED"}
OF_TABLES = ("import_", "export_")
"""How the kinds of imports and exports begin, before the name of a declaration."""


@dataclass(frozen=True)
class Jobs:
    """The jobs of one kind in one state, and the items in them."""

    kind: str
    status: str
    jobs: int
    items: int
    pending: int
    running: int
    waiting: int
    succeeded: int
    without_result: int
    dlq: int


@dataclass(frozen=True)
class Worker:
    """A worker that holds leases: how many items it holds, how many more its expired leases name, and how many seconds
    its last lease has left."""

    worker: str
    items: int
    expired: int
    seconds_left: float


@dataclass(frozen=True)
class Status:
    """Everything that `bulk status` shows."""

    jobs: Sequence[Jobs]
    workers: Sequence[Worker]

    @property
    def ready(self) -> int:
        """How many items a worker could take now."""
        return sum(each.pending for each in self.jobs if each.status in {"SUBMITTED", "RUNNING"})

    @property
    def waiting(self) -> int:
        """How many items wait for their next attempt."""
        return sum(each.waiting for each in self.jobs if each.status in UNFINISHED)


def read(url: str) -> Status:
    """Read the state of this moment, in one snapshot."""
    named = queries.load("status")
    with pool.single(url, application="bulk status") as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        with connection.cursor(row_factory=class_row(Jobs)) as cursor:
            jobs = cursor.execute(named.jobs_by_kind_and_state.sql).fetchall()
        with connection.cursor(row_factory=class_row(Worker)) as cursor:
            workers = cursor.execute(named.workers.sql).fetchall()
    return Status(jobs, workers)


def shown(status: Status) -> str:
    """Return the status as text for people."""
    if not status.jobs:
        return "no jobs yet"
    header = ("kind", "state", "jobs", "items", "pending", "running", "retrying", "done", "no result", "DLQ")
    rows = [
        (
            *(each.kind, each.status, each.jobs, each.items, each.pending, each.running),
            *(each.waiting, each.succeeded, each.without_result, each.dlq),
        )
        for each in status.jobs
    ]
    lost = undeclared(status.jobs)
    queue = f"queue: {counted(status.ready, 'item')} ready, {status.waiting} waiting for their next attempt"
    return "\n".join([*table(header, rows), "", *lost, queue, *workers(status.workers)])


def undeclared(found: Sequence[Jobs]) -> list[str]:
    """Say which unfinished imports and exports cannot be worked from here, because the declaration of their table is
    gone or lies in another folder."""
    wanted = {each.kind for each in found if each.status in UNFINISHED and each.kind.startswith(OF_TABLES)}
    try:
        known = {beginning + written.job_name(each.name) for beginning in OF_TABLES for each in resources.worked()}
    except InvalidInput as error:
        return [f"declarations cannot be read: {error}"]
    here = library.folder(settings.current())
    return [
        f"{kind}: no table is declared for it in {here}: where it is declared, its jobs are worked"
        for kind in sorted(wanted - known)
    ]


def workers(found: Sequence[Worker]) -> list[str]:
    if not found:
        return ["workers: none at work"]
    rows = [(each.worker, each.items, each.expired, f"{max(each.seconds_left, 0):.0f} s") for each in found]
    return ["", *table(("worker", "items", "expired", "lease left"), rows)]
