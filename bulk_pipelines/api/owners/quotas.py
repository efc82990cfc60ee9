"""The limits of an owner, as settings have them and as answers tell them (`RateLimit`, `RateLimit-Policy`)."""

from fastapi import Response

from bulk_pipelines.engine.jobs.quotas import DAY, Left, Quota
from bulk_pipelines.settings import Settings


def quota_of(chosen: Settings) -> Quota:
    return Quota(chosen.owner_jobs, chosen.owner_items, chosen.owner_bytes)


def tell(response: Response, quota: Quota, left: Left) -> None:
    """Say in the answer how much the owner may have, and how much of it is left."""
    for name, value in headers(quota, left).items():
        response.headers[name] = value


def headers(quota: Quota, left: Left) -> dict[str, str]:
    policy = f'"jobs";q={quota.jobs}, "items";q={quota.items}, "bytes";q={quota.bytes};w={DAY}'
    return {
        "RateLimit-Policy": policy,
        "RateLimit": f'"jobs";r={left.jobs}, "items";r={left.items}, "bytes";r={left.bytes}',
    }
