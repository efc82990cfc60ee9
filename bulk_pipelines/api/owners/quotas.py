"""The limits of an owner: from the settings, and as headers of answers (`RateLimit`, `RateLimit-Policy`)."""

from bulk_pipelines.engine.jobs.quotas import DAY, Left, Quota
from bulk_pipelines.settings import Settings


def quota_of(chosen: Settings) -> Quota:
    return Quota(chosen.owner_jobs, chosen.owner_items, chosen.owner_bytes)


def headers(quota: Quota, left: Left) -> dict[str, str]:
    """Return the headers that say how much the owner may have, and how much of it is left."""
    policy = f'"jobs";q={quota.jobs}, "items";q={quota.items}, "bytes";q={quota.bytes};w={DAY}'
    return {
        "RateLimit-Policy": policy,
        "RateLimit": f'"jobs";r={left.jobs}, "items";r={left.items}, "bytes";r={left.bytes}',
    }
