"""What the engine is told of distributions: how their items are worked, retried and leased, as the settings have it."""

from dataclasses import replace

from bulk_pipelines.distribution import completion
from bulk_pipelines.distribution.files import data, registry, target
from bulk_pipelines.distribution.files.reuse import ReusePolicy
from bulk_pipelines.distribution.request import KIND
from bulk_pipelines.distribution.work import Distributor
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.engine.worker.retry import Backoff
from bulk_pipelines.errors import ErrorClass
from bulk_pipelines.settings import Settings
from bulk_pipelines.storage.access import Access, access_of

LONGEST_BACKOFF = 300.0


def kind_of(settings: Settings, access: Access | None = None) -> Kind:
    """Make the kind as the settings have it. `access` replaces the settings' access to the storage."""
    reached = access or access_of(settings)
    distributor = Distributor(
        lambda: target.opened(target.url_of(settings), reached),
        data.query_of(settings.distribution_query),
        ReusePolicy(settings.reuse_files, settings.reuse_days),
    )
    return kind_with(distributor, settings)


def kind_with(distributor: Distributor, settings: Settings) -> Kind:
    limits = limits_of(settings.engine)
    delays = Backoff(settings.distribution_base_delay, LONGEST_BACKOFF)
    passing = dict.fromkeys((ErrorClass.TRANSIENT, ErrorClass.THROTTLED, ErrorClass.UNKNOWN), delays)
    return Kind(
        KIND,
        distributor.handle,
        prepare=distributor.prepare,
        record=registry.record,
        finish=completion.finish,
        fail_fast=True,
        concurrency=settings.distribution_concurrency,
        retry=replace(
            limits.retry,
            max_attempts=settings.distribution_attempts,
            backoffs={**limits.retry.backoffs, **passing},
        ),
        slices=replace(
            limits.slices,
            min_claim=min(limits.slices.min_claim, settings.distribution_claim),
            max_claim=settings.distribution_claim,
            lease_floor=settings.distribution_lease_seconds,
        ),
        settling=limits.settling,
    )
