"""Asset checks that look at one job. A check has no partitions of its own: Dagster lists all partitions of each check
whenever somebody opens the page of its asset."""

import dagster as dg


def job_to_check(context: dg.AssetCheckExecutionContext, asset: str) -> str:
    """Return the key of the job whose run this is. A run that a person launched for the check alone has no job, so it
    looks at the job that materialized the asset last."""
    if context.has_partition_key:
        return str(context.partition_key)
    event = context.instance.get_latest_materialization_event(dg.AssetKey(asset))
    if event is None or event.asset_materialization is None or event.asset_materialization.partition is None:
        raise dg.Failure(f"{asset} was never materialized, so there is nothing to check", allow_retries=False)
    return str(event.asset_materialization.partition)
