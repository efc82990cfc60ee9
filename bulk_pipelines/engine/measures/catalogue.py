"""The metrics that outlive their processes. Their names are Prometheus's: base units, and `_total` for what only grows.

No metric has the key of a job or the name of an owner as a label: there would be a series for each.
"""

from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """What becomes of a metric's values."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric as it is declared once, for whoever measures, whoever reads, and the documentation. It is compared by
    identity, because it is looked up with everything that is measured."""

    name: str
    form: Form
    labels: tuple[str, ...]
    doc: str
    bounds: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets; one more bucket has no bound."""


TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LONG_TIMES = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 43_200)
COUNTS = (1, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000)
SHARES = (0.05, 0.1, 0.25, 0.5, 0.8, 0.9, 0.99)


def counter(name: str, labels: tuple[str, ...], doc: str) -> Metric:
    return Metric(name, Form.COUNTER, labels, doc)


def histogram(name: str, labels: tuple[str, ...], doc: str, bounds: tuple[float, ...] = TIMES) -> Metric:
    return Metric(name, Form.HISTOGRAM, labels, doc, bounds)


ITEMS = counter(
    "bulk_items_total",
    ("kind", "outcome"),
    "Items that were worked: `succeeded`, `not_found`, `skipped`, `retried`, `buried` (to the DLQ) or `given_back`.",
)
ITEM_SECONDS = histogram(
    "bulk_item_duration_seconds",
    ("kind",),
    "How long an item takes a worker: the mean of a slice, counted once for each of its items.",
)
FLUSH_ITEMS = histogram("bulk_flush_items", ("kind",), "How many outcomes one statement settles.", COUNTS)
SETTLE_SECONDS = histogram(
    "bulk_settle_latency_seconds",
    ("kind",),
    "From the moment when the first outcome of a flush was there until all of them are committed.",
)
BUFFER_SHARE = histogram(
    "bulk_settle_buffer_ratio", ("kind",), "How full the buffer of outcomes was when it was flushed.", SHARES
)
LEASES_LOST = counter("bulk_leases_lost_total", ("kind",), "Outcomes that were dropped because the lease was lost.")
WRITE_SECONDS = histogram(
    "bulk_database_write_seconds",
    ("operation",),
    "How long a batch takes the database: `persist` items, `load` rows, or `settle` outcomes.",
)
WRITE_EWMA = Metric(
    "bulk_database_latency_ewma_seconds",
    Form.GAUGE,
    ("operation",),
    "The exponentially weighted mean of the same, as the worker that wrote last has it.",
)
POOL_WAIT = histogram("bulk_pool_wait_seconds", ("operation",), "How long a batch waited for a connection.")
BATCH_ROWS = histogram("bulk_batch_rows", ("operation",), "How many rows or items a batch had.", COUNTS)
TRANSACTIONS = counter(
    "bulk_transactions_total", ("operation", "result"), "Batches that were `committed` or `rolled_back`."
)
ROWS = counter(
    "bulk_rows_total",
    ("kind", "outcome"),
    "Records of imports and exports: `loaded`, `rejected`, `set_aside` (decided at the end), `exported`.",
)
JOBS_ENDED = counter("bulk_jobs_ended_total", ("kind", "state"), "Jobs that ended, by the state that they ended in.")
JOB_SECONDS = histogram("bulk_job_duration_seconds", ("kind",), "From the start of a job to its end.", LONG_TIMES)
JOB_WAIT = histogram("bulk_job_queue_seconds", ("kind",), "From the submission of a job to its start.", LONG_TIMES)
INGEST_SECONDS = histogram(
    "bulk_ingest_duration_seconds",
    ("kind",),
    "From the start of a job until all its items are in the database; 0 when they came with its submission.",
    LONG_TIMES,
)
PROVIDER_SECONDS = histogram(
    "bulk_provider_request_duration_seconds", ("provider",), "How long a provider takes to answer."
)
PROVIDER_REQUESTS = counter(
    "bulk_provider_requests_total",
    ("provider", "outcome"),
    "Requests to providers: `answered`, `nothing`, `throttled`, `failed`, or `put_off` (never sent: our limit is used "
    "up).",
)
HTTP_SECONDS = histogram(
    "bulk_http_request_duration_seconds",
    ("method", "route", "status"),
    "How long the API takes to answer, by the form of the path and the class of the status.",
)

KEPT: tuple[Metric, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
