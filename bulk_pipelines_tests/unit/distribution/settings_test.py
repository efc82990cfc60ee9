"""The settings arrive where they are meant to."""

import pytest

from bulk_pipelines.distribution.files.reuse import ReusePolicy
from bulk_pipelines.distribution.kind import kind_of
from bulk_pipelines.engine.outcomes import RetryLater
from bulk_pipelines.engine.states import ItemEvent
from bulk_pipelines.engine.worker import retry, slices
from bulk_pipelines.engine.worker.retry import Settlement, Tries
from bulk_pipelines.errors import ErrorClass
from bulk_pipelines.settings import Settings

CHOSEN = Settings(
    distribution_claim=70,
    distribution_concurrency=3,
    distribution_lease_seconds=7.0,
    distribution_attempts=4,
    distribution_base_delay=0.5,
)


def test_claims_leases_and_concurrency() -> None:
    kind = kind_of(CHOSEN)
    assert slices.claim_size(kind.slices, 1e-9) == 70
    assert slices.lease_seconds(kind.slices, None) == slices.lease_seconds(kind.slices, 0.1) == 7.0
    assert kind.concurrency == 3
    assert kind.fail_fast


@pytest.mark.parametrize("error_class", [ErrorClass.TRANSIENT, ErrorClass.THROTTLED, ErrorClass.UNKNOWN])
def test_tries_and_the_delays_between_them(error_class: ErrorClass) -> None:
    policy = kind_of(CHOSEN).retry

    def after(tries: int) -> Settlement:
        return retry.decide(policy, RetryLater("away", error_class=error_class), Tries(tries), lambda: 1.0)

    assert [after(tries).delay for tries in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert [after(tries).event for tries in (1, 2, 3, 4)] == [ItemEvent.RETRY] * 3 + [ItemEvent.BURY]
    assert policy.backoff(error_class).bound(60) == 300.0


def test_reuse() -> None:
    """Which is on, for data of a week ago."""
    assert ReusePolicy(Settings().reuse_files, Settings().reuse_days) == ReusePolicy(enabled=True, days=7)
