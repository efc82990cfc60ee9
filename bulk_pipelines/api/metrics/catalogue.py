"""The metrics that are looked up in the database when Prometheus asks. `engine.measures.catalogue` has the others."""

from bulk_pipelines.engine.measures.catalogue import KEPT, Form, Metric


def gauge(name: str, labels: tuple[str, ...], doc: str) -> Metric:
    return Metric(name, Form.GAUGE, labels, doc)


DATABASE_UP = gauge("bulk_database_up", (), "Whether the database answered this scrape.")
PART_UP = gauge(
    "bulk_metrics_part_up",
    ("part",),
    "Whether a part of this answer could be looked up in time. Dagster's part is 0 where Dagster keeps its runs in "
    "another database, or the API's role may not read them.",
)
AGE = gauge("bulk_metrics_age_seconds", (), "How old this answer is: one look serves all who ask within some seconds.")
JOBS = gauge("bulk_jobs", ("kind", "state"), "Jobs that are not over.")
QUEUE = gauge("bulk_queue_items", ("kind", "state"), "Items of these jobs: `pending`, `running` or `retry_wait`.")
OLDEST = gauge(
    "bulk_queue_oldest_seconds",
    ("kind",),
    "For how long the oldest item, or job without items yet, has waited for a worker.",
)
DEAD = gauge("bulk_dead_letters", ("kind",), "Items in the DLQ.")
DUE = gauge("bulk_jobs_to_end", (), "Jobs of which all items are done, and which nobody has ended yet.")
WANTED = gauge("bulk_jobs_wanting_run", (), "Jobs that want a run and have none.")
WORKERS = gauge("bulk_workers", (), "Workers that hold leases.")
LEASES = gauge("bulk_leases", ("state",), "Leases: `held`, or `expired` and not rescued yet.")
IN_FLIGHT = gauge("bulk_provider_in_flight", ("provider",), "Requests to a provider that are under way.")
BLOCKED = gauge(
    "bulk_provider_blocked_seconds",
    ("provider",),
    "For how long nobody may ask, because the provider or the breaker says so.",
)
PROVIDER_FAILURES = gauge("bulk_provider_failures", ("provider",), "Failed requests in a row.")
SOURCE_FAILURES = gauge("bulk_source_failures", ("source",), "Looks in a row at which a drop source did not answer.")
SOURCE_LOOK = gauge("bulk_source_look_timestamp_seconds", ("source",), "When a drop source was last looked at.")
SOURCE_FILE = gauge("bulk_source_file_timestamp_seconds", ("source",), "When a file was last dropped there.")
EVENTS = gauge("bulk_events_waiting", (), "Events of which nobody was told yet.")
EVENTS_OLDEST = gauge("bulk_events_oldest_seconds", (), "How old the oldest of them is.")
SERVER_TRANSACTIONS = Metric(
    "bulk_server_transactions_total",
    Form.COUNTER,
    ("result",),
    "All transactions of this database, as PostgreSQL counts them: `committed` or `rolled_back`.",
)
DEADLOCKS = Metric("bulk_server_deadlocks_total", Form.COUNTER, (), "Deadlocks, as PostgreSQL counts them.")
CONNECTIONS = gauge("bulk_server_connections", (), "Sessions with this database, of whomever.")
SLOW = gauge(
    "bulk_server_slow_queries",
    (),
    "Queries of this database that have run for more than five seconds at this moment; COPY, which may, is left out.",
)
RUNS = gauge("bulk_dagster_runs", ("status",), "Dagster's runs that are not over.")
RUNS_OLDEST = gauge("bulk_dagster_run_oldest_seconds", ("status",), "The age of the oldest of them.")
ENDED_RUNS = gauge("bulk_dagster_ended_runs", ("status",), "Dagster's runs that ended within the last hour.")
RUNS_QUEUED = gauge(
    "bulk_dagster_run_queued_seconds", ("status",), "How long these runs had waited in the queue, on average."
)
TICKS = gauge("bulk_dagster_ticks", ("name", "status"), "Ticks of sensors and schedules within the last ten minutes.")
TICK_SECONDS = gauge("bulk_dagster_tick_slowest_seconds", ("name",), "How long the slowest of these ticks took.")
HEARTBEAT = gauge(
    "bulk_dagster_heartbeat_age_seconds", ("daemon",), "The time since a daemon of Dagster was last alive."
)

LOOKED_UP: tuple[Metric, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
ALL = (*LOOKED_UP, *KEPT)
