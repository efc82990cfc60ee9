"""Each setting of the engine changes what the engine does, for each kind of job that it is meant for."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from bulk_pipelines import settings
from bulk_pipelines.distribution import definitions as distribution
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.intake.adaptive import BatchLimits, BatchSizer, Reason, Sample
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.limits import Limits, limits_of
from bulk_pipelines.engine.outcomes import NotFound, Outcome, RetryLater
from bulk_pipelines.engine.states import ItemEvent
from bulk_pipelines.engine.worker import retry, slices
from bulk_pipelines.engine.worker.retry import RetryPolicy, Tries
from bulk_pipelines.engine.worker.settler_limits import SettlerLimits
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.errors import ErrorClass, InvalidInput
from bulk_pipelines.exports import definitions as exports
from bulk_pipelines.imports import definitions as imports
from bulk_pipelines.notices import definitions as notices
from bulk_pipelines.processing import definitions as processing
from bulk_pipelines.processing.types import TYPES
from bulk_pipelines.resources import RESOURCES
from bulk_pipelines.settings.engine import EngineSettings

DEFAULT = limits_of(EngineSettings())


def limits(**variables: str) -> Limits:
    named = {f"BULK_{name}": value for name, value in variables.items()}
    return limits_of(settings.load({"BULK_HOME": "/x", "BULK_DROPS_FILE": "/x"} | named).engine)


def test_the_defaults_are_those_of_the_engine() -> None:
    assert DEFAULT.ingest == BatchLimits()
    assert DEFAULT.slices == SliceLimits()
    assert DEFAULT.retry == RetryPolicy()
    assert DEFAULT.settling == SettlerLimits()


@pytest.mark.parametrize("name", [each.name for each in fields(EngineSettings)])
def test_no_setting_is_without_effect(name: str) -> None:
    value = getattr(EngineSettings(), name)
    other: Any = value * 0.5 if isinstance(value, float) else value + 1
    assert limits_of(EngineSettings(**{name: other})) != DEFAULT


@pytest.mark.parametrize("variable", ["CLAIM_MIN", "INGEST_MIN_ROWS", "LOAD_P50_MS", "LOCK_FLOOR_MS"])
def test_two_settings_that_contradict_each_other_are_refused(variable: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^BULK_{variable}: 90000000 is more than BULK_\w+, \d+$"):
        limits(**{variable: "90000000"})


# Batches, of items that are persisted and of rows that are loaded.

INGEST = pytest.mark.parametrize(
    ("prefix", "p50", "p95", "chosen"),
    [
        ("INGEST", "DB_P50_MS", "DB_P95_MS", lambda found: found.ingest),
        ("LOAD", "LOAD_P50_MS", "LOAD_P95_MS", lambda found: found.load),
    ],
    ids=["ingest", "load"],
)
Chosen = Callable[[Limits], BatchLimits]


def after(limits: BatchLimits, seconds: float, times: int = 1, failed: bool = False) -> tuple[int, Reason]:
    """Return the size of a batch after so many full ones that took so long, and why it has that size."""
    sizer = BatchSizer.within(limits)
    for _ in range(times):
        sizer.observe(Sample(sizer.rows, 1, seconds, failed=failed))
    return sizer.rows, sizer.steps[-1].reason


@INGEST
def test_the_rows_of_a_batch(prefix: str, p50: str, p95: str, chosen: Chosen) -> None:
    within = chosen(limits(**{f"{prefix}_MIN_ROWS": "3", f"{prefix}_MAX_ROWS": "9000"}))
    assert after(within, 0.0, times=20)[0] == 9_000
    assert after(within, 9.0, times=20, failed=True)[0] == 3


@INGEST
def test_the_times_of_a_batch(prefix: str, p50: str, p95: str, chosen: Chosen) -> None:
    within = chosen(limits(**{p50: "100", p95: "200"}))
    assert [after(within, seconds)[1] for seconds in (0.09, 0.15, 0.21)] == [Reason.QUICK, Reason.STEADY, Reason.SLOW]
    assert {after(chosen(DEFAULT), seconds)[1] for seconds in (0.09, 0.15, 0.21)} == {Reason.QUICK}


@INGEST
def test_the_bytes_of_a_batch(prefix: str, p50: str, p95: str, chosen: Chosen) -> None:
    sizer = BatchSizer.within(chosen(limits(**{f"{prefix}_MAX_BATCH_BYTES": "100000"})))
    items: Iterator[persist.Encoded] = persist.checked((f"k{n}", {"text": "x" * 30_000}) for n in range(64))
    assert len(persist.next_batch(items, sizer)) == 4


# Slices, claims and leases.


def test_the_length_of_a_slice() -> None:
    assert limits(WORKER_TARGET_SLICE_MS="1500").slices.target_seconds == 1.5
    assert slices.claim_size(DEFAULT.slices, 0.1) == 35
    assert slices.claim_size(limits(WORKER_TARGET_SLICE_MS="1000").slices, 0.1) == 7
    assert slices.claim_size(limits(SAFETY_FACTOR="0.1").slices, 0.1) == 5


def test_the_size_of_a_claim() -> None:
    within = limits(CLAIM_MIN="5", CLAIM_MAX="8").slices
    assert [slices.claim_size(within, seconds) for seconds in (None, 100.0, 0.00001)] == [8, 5, 8]


def test_the_length_of_a_lease() -> None:
    within = limits(LOCK_FLOOR_MS="2000", LOCK_CAP_MS="4000").slices
    assert [slices.lease_seconds(within, seconds) for seconds in (None, 1.5, 10.0)] == [2.0, 3.0, 4.0]


# Tries, and the delays between them.


def events(policy: RetryPolicy, outcome: Outcome, tries: list[Tries]) -> list[ItemEvent]:
    return [retry.decide(policy, outcome, each, lambda: 1.0).event for each in tries]


def test_the_tries_of_an_item_that_fails() -> None:
    tries = [Tries(1), Tries(2)]
    assert events(limits(MAX_ATTEMPTS_ERROR="2").retry, RetryLater("x"), tries) == [ItemEvent.RETRY, ItemEvent.BURY]
    assert events(DEFAULT.retry, RetryLater("x"), tries) == [ItemEvent.RETRY, ItemEvent.RETRY]


def test_the_tries_of_an_item_that_is_not_found() -> None:
    policy = limits(MAX_ATTEMPTS_NOT_FOUND="3").retry
    tries = [Tries(1), Tries(2, not_found=1), Tries(3, not_found=2)]
    assert events(policy, NotFound(), tries) == [ItemEvent.RETRY, ItemEvent.RETRY, ItemEvent.MISS]


def test_the_workers_that_may_die_on_an_item() -> None:
    policy = limits(MAX_ATTEMPTS_DIED="1").retry
    assert retry.decide_rescue(policy, Tries(1, deaths=1), "w", lambda: 1.0).event is ItemEvent.BURY
    assert retry.decide_rescue(DEFAULT.retry, Tries(1, deaths=1), "w", lambda: 1.0).event is ItemEvent.RETRY


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_the_delays_after_each_class_of_error(error_class: ErrorClass) -> None:
    if error_class is ErrorClass.PERMANENT:
        return  # is not tried again
    name = f"BACKOFF_{error_class.upper()}"
    chosen = limits(**{f"{name}_BASE_MS": "70", f"{name}_CAP_MS": "200"}).retry
    assert [chosen.backoff(error_class).delay(tries, lambda: 1.0) for tries in (1, 2, 3)] == [0.07, 0.14, 0.2]
    others = set(ErrorClass) - {error_class}
    assert [chosen.backoff(each) for each in others] == [DEFAULT.retry.backoff(each) for each in others]


# What the kinds make of them, as Dagster's steps and the sweeper get them.

LONG: list[Callable[[], Kind]] = [
    *(lambda resource=each: imports.pipeline(resource).kind for each in RESOURCES),
    *(lambda resource=each: exports.pipeline(resource).kind for each in RESOURCES),
]
"""Kinds one item of which may take long."""
ROWS: list[Callable[[], Kind]] = [*(lambda type_=each: processing.pipeline(type_).kind for each in TYPES.values())]
"""Kinds whose jobs have recipes, which decide how often a row is tried: see `lookup_test.py`."""
OTHERS: list[Callable[[], Kind]] = [lambda: notices.pipeline().kind, lambda: distribution.pipeline().kind]
"""Kinds that decide for themselves how often an item is tried that fails: see docs/engine.md."""


@pytest.mark.parametrize("kind", [*LONG, *ROWS, *OTHERS], ids=lambda made: made().name)
def test_each_kind_takes_the_settings(kind: Callable[[], Kind], monkeypatch: pytest.MonkeyPatch) -> None:
    before = kind()
    variables = {
        "MAX_ATTEMPTS_ERROR": "77",
        "MAX_ATTEMPTS_NOT_FOUND": "7",
        "MAX_ATTEMPTS_DIED": "17",
        "BACKOFF_DIED_BASE_MS": "50",
        "LOCK_CAP_MS": "4000000",
        "LOCK_FLOOR_MS": "3000000",
        "WORKER_TARGET_SLICE_MS": "9000",
        "SETTLE_ITEMS": "9",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"BULK_{name}", value)
    now = kind()
    assert now.retry.max_deaths == 17
    if kind not in ROWS:
        assert now.retry.not_found_attempts == 7
    if kind in LONG:
        assert now.retry.max_attempts == 77
    assert now.retry.backoff(ErrorClass.DIED).base == 0.05
    assert now.slices.target_seconds == 9.0
    assert slices.lease_seconds(now.slices, 10_000) > slices.lease_seconds(before.slices, 10_000)
    assert now.settling.flush_at == 9
    if now.name != "distribution":  # it has a setting of its own
        assert slices.lease_seconds(now.slices, None) > slices.lease_seconds(before.slices, None)


@pytest.mark.parametrize("kind", LONG, ids=lambda made: made().name)
def test_what_takes_long_is_claimed_one_by_one(kind: Callable[[], Kind], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_CLAIM_MIN", "50")
    assert [slices.claim_size(kind().slices, seconds) for seconds in (None, 0.0, 100.0)] == [1, 1, 1]


def test_a_distribution_never_claims_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_CLAIM_MIN", "50")
    monkeypatch.setenv("BULK_DISTRIBUTION_CLAIM", "20")
    assert slices.claim_size(distribution.pipeline().kind.slices, 100.0) == 20
