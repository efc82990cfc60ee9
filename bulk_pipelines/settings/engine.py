"""The settings of the engine, which hold for every kind of job: batches, slices, leases, tries and delays.

A kind may have reasons to differ; docs/engine.md says which does.
"""

from dataclasses import dataclass

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.settings.variables import setting

DAY = 86_400_000
MIB = 1024 * 1024
LARGEST_BATCH = 256 * MIB

IN_ORDER = [
    ("ingest_min_rows", "ingest_max_rows"),
    ("db_p50_ms", "db_p95_ms"),
    ("load_min_rows", "load_max_rows"),
    ("load_p50_ms", "load_p95_ms"),
    ("claim_min", "claim_max"),
    ("lock_floor_ms", "lock_cap_ms"),
    ("backoff_transient_base_ms", "backoff_transient_cap_ms"),
    ("backoff_throttled_base_ms", "backoff_throttled_cap_ms"),
    ("backoff_unknown_base_ms", "backoff_unknown_cap_ms"),
    ("backoff_not_found_base_ms", "backoff_not_found_cap_ms"),
    ("backoff_died_base_ms", "backoff_died_cap_ms"),
]
"""Pairs of settings of which the first must not be more than the second."""


@dataclass(frozen=True)
class EngineSettings:
    """The bounds within which the engine finds its sizes and times by itself."""

    ingest_min_rows: int = setting(
        "BULK_INGEST_MIN_ROWS", 64, "The fewest items that are persisted in one transaction.", at_least=1
    )
    ingest_max_rows: int = setting(
        "BULK_INGEST_MAX_ROWS", 50_000, "The most items that are persisted in one transaction.", at_most=1_000_000
    )
    ingest_max_batch_bytes: int = setting(
        "BULK_INGEST_MAX_BATCH_BYTES",
        16 * MIB,
        "The bytes of items after which a transaction that persists them takes no further one.",
        at_least=1,
        at_most=LARGEST_BATCH,
    )
    db_p50_ms: int = setting(
        "BULK_DB_P50_MS",
        250,
        "Milliseconds: while persisting a batch of items takes less on average, batches grow.",
        at_least=1,
    )
    db_p95_ms: int = setting(
        "BULK_DB_P95_MS", 1_000, "Milliseconds: a batch of items that takes longer halves the next one.", at_least=1
    )
    load_min_rows: int = setting(
        "BULK_LOAD_MIN_ROWS", 1_000, "The fewest rows that an import loads in one transaction.", at_least=1
    )
    load_max_rows: int = setting(
        "BULK_LOAD_MAX_ROWS", 100_000, "The most rows that an import loads in one transaction.", at_most=1_000_000
    )
    load_max_batch_bytes: int = setting(
        "BULK_LOAD_MAX_BATCH_BYTES",
        16 * MIB,
        "The most bytes of a file that an import loads in one transaction; a longer record still goes in whole.",
        at_least=65_536,
        at_most=LARGEST_BATCH,
    )
    load_p50_ms: int = setting(
        "BULK_LOAD_P50_MS",
        600,
        "Milliseconds: while loading a batch of rows takes less on average, batches grow.",
        at_least=1,
    )
    load_p95_ms: int = setting(
        "BULK_LOAD_P95_MS", 2_000, "Milliseconds: a batch of rows that takes longer halves the next one.", at_least=1
    )
    worker_target_slice_ms: int = setting(
        "BULK_WORKER_TARGET_SLICE_MS",
        5_000,
        "Milliseconds of work that a worker takes at once. A pause takes effect after them.",
        at_least=10,
        at_most=600_000,
    )
    claim_min: int = setting("BULK_CLAIM_MIN", 1, "The fewest items that a worker claims at once.", at_least=1)
    claim_max: int = setting("BULK_CLAIM_MAX", 1_000, "The most items that a worker claims at once.", at_most=10_000)
    safety_factor: float = setting(
        "BULK_SAFETY_FACTOR",
        0.7,
        "The share of a slice for which a worker claims items, by the time that items took before.",
        at_least=0.01,
        at_most=1,
    )
    lock_floor_ms: int = setting(
        "BULK_LOCK_FLOOR_MS",
        30_000,
        "Milliseconds that a lease lasts at least. The items of a worker that was lost go to another one after them.",
        at_least=1_000,
    )
    lock_cap_ms: int = setting(
        "BULK_LOCK_CAP_MS",
        900_000,
        "Milliseconds that a lease lasts at most. It lasts twice as long as an item takes, and is renewed.",
        at_most=DAY,
    )
    max_attempts_error: int = setting(
        "BULK_MAX_ATTEMPTS_ERROR", 5, "How often an item that fails is tried before it goes to the DLQ.", at_least=1
    )
    max_attempts_not_found: int = setting(
        "BULK_MAX_ATTEMPTS_NOT_FOUND",
        2,
        "How often an item is tried for which nothing is found, before that is its result.",
        at_least=1,
    )
    max_attempts_died: int = setting(
        "BULK_MAX_ATTEMPTS_DIED", 3, "How many workers may die on an item before it goes to the DLQ.", at_least=1
    )
    backoff_transient_base_ms: int = setting(
        "BULK_BACKOFF_TRANSIENT_BASE_MS",
        1_000,
        "The most milliseconds before the second try after an error that may pass; doubled for each further one.",
        at_least=1,
    )
    backoff_transient_cap_ms: int = setting(
        "BULK_BACKOFF_TRANSIENT_CAP_MS",
        300_000,
        "The most milliseconds before any try after an error that may pass.",
        at_most=DAY,
    )
    backoff_throttled_base_ms: int = setting(
        "BULK_BACKOFF_THROTTLED_BASE_MS",
        5_000,
        "The most milliseconds before the second try after a server asked for less; doubled for each further one.",
        at_least=1,
    )
    backoff_throttled_cap_ms: int = setting(
        "BULK_BACKOFF_THROTTLED_CAP_MS",
        600_000,
        "The most milliseconds before any try after a server asked for less.",
        at_most=DAY,
    )
    backoff_unknown_base_ms: int = setting(
        "BULK_BACKOFF_UNKNOWN_BASE_MS",
        5_000,
        "The most milliseconds before the second try after an error that nobody knows; doubled for each further one.",
        at_least=1,
    )
    backoff_unknown_cap_ms: int = setting(
        "BULK_BACKOFF_UNKNOWN_CAP_MS",
        600_000,
        "The most milliseconds before any try after an error that nobody knows.",
        at_most=DAY,
    )
    backoff_not_found_base_ms: int = setting(
        "BULK_BACKOFF_NOT_FOUND_BASE_MS",
        30_000,
        "The most milliseconds before the second try after nothing was found; doubled for each further one.",
        at_least=1,
    )
    backoff_not_found_cap_ms: int = setting(
        "BULK_BACKOFF_NOT_FOUND_CAP_MS",
        3_600_000,
        "The most milliseconds before any try after nothing was found.",
        at_most=DAY,
    )
    backoff_died_base_ms: int = setting(
        "BULK_BACKOFF_DIED_BASE_MS",
        1_000,
        "The most milliseconds before the second try after its worker was lost; doubled for each further one.",
        at_least=1,
    )
    backoff_died_cap_ms: int = setting(
        "BULK_BACKOFF_DIED_CAP_MS",
        60_000,
        "The most milliseconds before any try after its worker was lost.",
        at_most=DAY,
    )
    settle_items: int = setting(
        "BULK_SETTLE_ITEMS",
        100,
        "How many outcomes of items are collected before they are written together.",
        at_least=1,
        at_most=2_000,
    )
    settle_ms: int = setting(
        "BULK_SETTLE_MS",
        250,
        "Milliseconds after which outcomes are written, even if fewer than BULK_SETTLE_ITEMS wait.",
        at_least=1,
        at_most=10_000,
    )

    def __post_init__(self) -> None:
        for low, high in IN_ORDER:
            if getattr(self, low) > getattr(self, high):
                least, most = (f"BULK_{name.upper()}" for name in (low, high))
                raise InvalidInput(least, f"{getattr(self, low)} is more than {most}, {getattr(self, high)}")
