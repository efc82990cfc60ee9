"""Submitting jobs of processing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bulk_pipelines import settings
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.request import ProcessingRequest, kind_name


def submit(
    connection: Connection, request: ProcessingRequest, sender: Sender, identity: Mapping[str, Any] | None = None
) -> Submitted:
    """Submit a job. `identity` is what equal requests have in common, where that is not the request as it stands."""
    asked = sender.asks(kind_name(request.recipe.type), request.as_params(), identity=identity)
    return submission.submit(connection, KINDS, asked)


def submit_drop(
    connection: Connection,
    source: str,
    file: tuple[str, int, str, list[str]],
    *,
    recipe: str,
    options: Mapping[str, Any],
    within: str | None,
) -> tuple[int, str]:
    """Submit the rows of a file that was dropped at a source; return the id and the key of its job. The file has its
    address, its size, the version that was taken, and the hashes of contents that it had before. The options say how it
    is read, and `within` is the folder of this machine that it lies in."""
    address, _, version, _ = file
    found = library.load(settings.current()).to_run(recipe)
    request = replace(ProcessingRequest.parse(found, source=address, **options), version=version, within=within)
    job = submit(connection, request, Sender(source, "sensor")).job
    return job.job_id, job.job_key


def processing_job(connection: Connection, job_key: str, owner: str | None = None) -> Job:
    """Return the job with this key. Another owner's job is an unknown one."""
    job = jobs.find(connection, job_key, owner)
    if job.kind not in KINDS:
        raise InvalidInput("job", f"{job_key} processes no rows, it is of the kind {job.kind}")
    return job
