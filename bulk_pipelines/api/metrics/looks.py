"""The looks at the database that a scrape consists of. Each is bounded in time, and one that fails does not spoil the
others."""

from collections.abc import Callable, Iterator

from psycopg.rows import dict_row, scalar_row

from bulk_pipelines.api.metrics import catalogue
from bulk_pipelines.database import queries
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.measures.catalogue import Metric

Sample = tuple[Metric, tuple[str, ...], float]
Look = Callable[[Connection], Iterator[Sample]]


UNFINISHED = ("submitted", "running", "paused")


class Absent(Exception):
    """This database does not hold what a look is about."""


def rows(connection: Connection, query: str) -> list[dict[str, object]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(queries.text("metrics", query)).fetchall()


def number(value: object) -> float:
    return float(value)  # type: ignore[arg-type]


def sampled(row: dict[str, object], labels: tuple[str, ...], metrics: dict[str, Metric]) -> Iterator[Sample]:
    """Yield a sample for each column that has a value and is a metric's."""
    for column, metric in metrics.items():
        if row[column] is not None:
            yield metric, labels, number(row[column])


def queue(connection: Connection) -> Iterator[Sample]:
    for row in rows(connection, "unfinished_jobs"):
        kind, state = str(row["kind"]), str(row["state"]).lower()
        yield catalogue.JOBS, (kind, state), number(row["jobs"])
        yield from ((catalogue.JOBS, (kind, each), 0.0) for each in UNFINISHED)
        for items in ("pending", "running", "retry_wait"):
            yield catalogue.QUEUE, (kind, items), number(row[items])
    for row in rows(connection, "oldest_waiting"):
        yield from sampled(row, (str(row["kind"]),), {"seconds": catalogue.OLDEST})
    for row in rows(connection, "unended_jobs"):
        yield from sampled(row, (), {"due": catalogue.DUE, "wanted": catalogue.WANTED})


def dead_letters(connection: Connection) -> Iterator[Sample]:
    for row in rows(connection, "dead_letters"):
        yield from sampled(row, (str(row["kind"]),), {"items": catalogue.DEAD})


def leases(connection: Connection) -> Iterator[Sample]:
    for row in rows(connection, "leases"):
        yield catalogue.WORKERS, (), number(row["workers"])
        for state in ("held", "expired"):
            yield catalogue.LEASES, (state,), number(row[state])


def providers(connection: Connection) -> Iterator[Sample]:
    metrics = {
        "in_flight": catalogue.IN_FLIGHT,
        "failures": catalogue.PROVIDER_FAILURES,
        "blocked_seconds": catalogue.BLOCKED,
    }
    for row in rows(connection, "limits"):
        yield from sampled(row, (str(row["provider"]),), metrics)


def sources(connection: Connection) -> Iterator[Sample]:
    metrics = {
        "failures": catalogue.SOURCE_FAILURES,
        "looked_at": catalogue.SOURCE_LOOK,
        "last_file_at": catalogue.SOURCE_FILE,
    }
    for row in rows(connection, "sources"):
        yield from sampled(row, (str(row["source"]),), metrics)


def events(connection: Connection) -> Iterator[Sample]:
    for row in rows(connection, "outbox"):
        yield from sampled(row, (), {"events": catalogue.EVENTS, "oldest_seconds": catalogue.EVENTS_OLDEST})


def server(connection: Connection) -> Iterator[Sample]:
    for row in rows(connection, "server"):
        for result in ("committed", "rolled_back"):
            yield catalogue.SERVER_TRANSACTIONS, (result,), number(row[result])
        named = {"deadlocks": catalogue.DEADLOCKS, "connections": catalogue.CONNECTIONS, "slow": catalogue.SLOW}
        yield from sampled(row, (), named)


def dagster(connection: Connection) -> Iterator[Sample]:
    with connection.cursor(row_factory=scalar_row) as cursor:
        if not cursor.execute(queries.text("metrics", "has_dagster")).fetchone():
            raise Absent("Dagster keeps its runs elsewhere, or this role may not read them")
    for row in rows(connection, "dagster_runs"):
        status = (str(row["status"]).lower(),)
        yield from sampled(row, status, {"runs": catalogue.RUNS, "oldest": catalogue.RUNS_OLDEST})
    for row in rows(connection, "dagster_ended_runs"):
        status = (str(row["status"]).lower(),)
        yield from sampled(row, status, {"runs": catalogue.ENDED_RUNS, "queued": catalogue.RUNS_QUEUED})
    slowest: dict[str, float] = {}
    for row in rows(connection, "dagster_ticks"):
        name = str(row["name"])
        yield catalogue.TICKS, (name, str(row["status"]).lower()), number(row["ticks"])
        yield catalogue.TICKS, (name, "failure"), 0.0
        slowest[name] = max(slowest.get(name, 0.0), number(row["slowest"] or 0.0))
    for name, seconds in slowest.items():
        yield catalogue.TICK_SECONDS, (name,), seconds
    for row in rows(connection, "dagster_heartbeats"):
        yield from sampled(row, (str(row["daemon_type"]).lower(),), {"age": catalogue.HEARTBEAT})


LOOKS: dict[str, Look] = {
    "queue": queue,
    "dead_letters": dead_letters,
    "leases": leases,
    "providers": providers,
    "sources": sources,
    "events": events,
    "server": server,
    "dagster": dagster,
}
