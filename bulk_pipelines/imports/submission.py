"""Submitting imports, and finding them again."""

from collections.abc import Mapping, Sequence
from typing import Any

from bulk_pipelines import resources
from bulk_pipelines.database.pool import Connection
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender, Submitted
from bulk_pipelines.imports import progress
from bulk_pipelines.imports.kind import known_kinds
from bulk_pipelines.imports.request import ImportRequest, Options, RequestedFile, kind_name
from bulk_pipelines.resources import adoption


def submit(
    connection: Connection, request: ImportRequest, sender: Sender, identity: Mapping[str, Any] | None = None
) -> Submitted:
    """Submit an import. Its job and the rows of its files are written in the caller's transaction. `identity` is what
    equal requests have in common; without it, they name the same files."""
    same = request.identity() if identity is None else identity
    asked = sender.asks(kind_name(request.resource), request.as_params(), identity=same)
    submitted = submission.submit(connection, known_kinds(), asked)
    if submitted.created:
        adoption.refuse_unmade(connection, request.declared)
        progress.add_files(connection, submitted.job.job_id, request.files)
    return submitted


def submit_drop(
    connection: Connection,
    source: str,
    files: Sequence[tuple[str, int, str, list[str]]],
    *,
    resource: str,
    options: Mapping[str, Any],
) -> tuple[int, str]:
    """Submit an import of files that were dropped at a source; return the id and the key of its job.

    Each file has its address, its size, the version that was taken, and the hashes of the contents that it had when it
    was taken before. The options are those of a request; `within` among them is the folder of this machine that the
    files lie in.
    """
    request = Options(resource, **options).request(
        tuple(RequestedFile(url, size, tuple(known), version) for url, size, version, known in files)
    )
    job = submit(connection, request, Sender(source, "sensor")).job
    return job.job_id, job.job_key


def references() -> Mapping[str, list[str]]:
    """Return the names of the resources, each with the names of those that it refers to."""
    return {each.name: resources.referred_to(each) for each in resources.known()}


def import_job(connection: Connection, job_key: str, owner: str | None = None) -> Job:
    """Return the import with this key. Another owner's import is an unknown job."""
    job = jobs.find(connection, job_key, owner)
    if job.kind not in known_kinds():
        resources.refuse_kind(job_key, job.kind, "import")
    return job
