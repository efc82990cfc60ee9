"""The limits of the engine as the settings have them. A kind takes these, and changes what it has reasons to."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from bulk_pipelines.engine.intake.adaptive import BatchLimits
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.worker.retry import Backoff, RetryPolicy
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.errors import ErrorClass
from bulk_pipelines.settings.engine import EngineSettings

RETRIED = (ErrorClass.TRANSIENT, ErrorClass.THROTTLED, ErrorClass.UNKNOWN, ErrorClass.NOT_FOUND, ErrorClass.DIED)


@dataclass(frozen=True)
class Limits:
    """What holds for every kind of job: batches of items that are persisted, of rows that are loaded, and the rest."""

    ingest: BatchLimits
    load: BatchLimits
    slices: SliceLimits
    retry: RetryPolicy
    settling: SettlerLimits


def limits_of(chosen: EngineSettings) -> Limits:
    return Limits(
        ingest=BatchLimits(
            min_rows=chosen.ingest_min_rows,
            max_rows=chosen.ingest_max_rows,
            max_bytes=chosen.ingest_max_batch_bytes,
            quick_seconds=chosen.db_p50_ms / 1000,
            slow_seconds=chosen.db_p95_ms / 1000,
        ),
        load=BatchLimits(
            min_rows=chosen.load_min_rows,
            max_rows=chosen.load_max_rows,
            max_bytes=chosen.load_max_batch_bytes,
            start_rows=16_000,
            quick_seconds=chosen.load_p50_ms / 1000,
            slow_seconds=chosen.load_p95_ms / 1000,
        ),
        slices=SliceLimits(
            target_seconds=chosen.worker_target_slice_ms / 1000,
            safety=chosen.safety_factor,
            min_claim=chosen.claim_min,
            max_claim=chosen.claim_max,
            lease_floor=chosen.lock_floor_ms / 1000,
            lease_cap=chosen.lock_cap_ms / 1000,
        ),
        retry=RetryPolicy(
            max_attempts=chosen.max_attempts_error,
            not_found_attempts=chosen.max_attempts_not_found,
            max_deaths=chosen.max_attempts_died,
            backoffs={each: backoff(chosen, each) for each in RETRIED},
        ),
        settling=SettlerLimits(flush_at=chosen.settle_items, flush_seconds=chosen.settle_ms / 1000),
    )


def backoff(chosen: EngineSettings, error_class: ErrorClass) -> Backoff:
    base, cap = (getattr(chosen, f"backoff_{error_class}_{end}_ms") for end in ("base", "cap"))
    return Backoff(base / 1000, cap / 1000)


def by_default(names: Callable[[], tuple[str, ...]], made: Callable[[Limits], Kinds]) -> Callable[[], Kinds]:
    """Return a function that returns a slice's kinds with the limits by default. Whoever submits needs no more than
    their names. The kinds are made anew when there are other names, as after a resource was adopted."""

    @lru_cache(maxsize=4)
    def of_names(_names: tuple[str, ...]) -> Kinds:
        return made(limits_of(EngineSettings()))

    return lambda: of_names(names())
