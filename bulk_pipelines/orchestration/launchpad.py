"""What the jobs of the launchpad that submit something say of it."""

import dagster as dg

from bulk_pipelines.engine.jobs.jobs import Submitted


def tell_submitted(context: dg.OpExecutionContext, submitted: Submitted, what: str, **metadata: str | int) -> None:
    """Say which job came of a submission, in the run's log and as metadata of its step."""
    said = "submitted" if submitted.created else "submitted before, under this idempotency key"
    context.log.info(f"{what}: {said} as job {submitted.job.job_key}")
    context.add_output_metadata({"job": submitted.job.job_key, **metadata, "state": said})
