"""Replays: imports of the rejects of another import, as they stood, or as a person has mended them."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Engine

from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import Connection, transaction
from bulk_pipelines.engine.jobs import audit, dlq, submission
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.dlq import Wanted
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender, SentFile, Submitted
from bulk_pipelines.errors import Conflict
from bulk_pipelines.imports import completion, progress, winding_up
from bulk_pipelines.imports.afterwards import replaying
from bulk_pipelines.imports.load import rejects
from bulk_pipelines.imports.plan.import_file import ImportFile
from bulk_pipelines.imports.request import ImportRequest, RequestedFile
from bulk_pipelines.imports.submission import import_job, submit
from bulk_pipelines.resources import adoption
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage import locations
from bulk_pipelines.storage.access import Access


def refuse_incomplete(connection: Connection, job: Job) -> None:
    """Raise `Conflict` if records of the import may still be rejected."""
    if not job.finished or (job.result is None and job.planned_at is not None):
        raise Conflict(f"job {job.job_key} is {job.status}: its rejects are not complete yet")
    if completion.may_go_on(job) and dlq.page(connection, Wanted(job.job_key), size=1):
        raise Conflict(
            f"job {job.job_key} has ranges in the DLQ: its rejects are not complete before they are tried again "
            f"(bulk dlq redrive --job {job.job_key}) or discarded (bulk dlq discard --job {job.job_key})"
        )


def refuse_other_columns(job_key: str, declared: Resource, files: Sequence[ImportFile]) -> None:
    """Raise `Conflict` if the records were read for columns that the table does not have by now."""
    read = {name for file in files if file.layout is not None for name in file.layout.columns}
    gone = sorted(read - set(declared.column_names))
    if gone:
        raise Conflict(
            f"the records of {job_key} were read for {counted(len(gone), 'column')} that {'.'.join(declared.place)} has"
            f" not any more: {', '.join(gone)}. `bulk import errors {job_key} --as-source --to FILE` writes them to a"
            " file; import that with --map, which says where its fields go now, or with --ignore"
        )


def replay(pool: Engine, job_key: str, folder: str, access: Access, by: Actor) -> Submitted:
    """Run the rejects of an import that has ended once more, as an import of their own. An import has only one replay,
    which belongs to the owner of the import, whoever asks for it."""
    key = f"replay of {job_key}"
    with transaction(pool) as connection:
        import_job(connection, job_key, by.sees)
    winding_up.wind_up(pool, job_key)  # until then, rejects may lack their records
    with transaction(pool) as connection:
        job = import_job(connection, job_key, by.sees)
        refuse_incomplete(connection, job)
        before = submission.find_by_key(connection, job.owner, key)
        if before is not None:
            return Submitted(before, created=False)
        first = ImportRequest.from_params(job.params)
        files = progress.files(connection, job.job_id)
        if not rejects.count(connection, job.job_id):
            removed = ", retention has removed them" if (job.result or {}).get("rejected") else ""
            raise Conflict(f"job {job_key} has no rejected records to run again{removed}")
        # Whoever runs rejects again has mended a rule or the data, so the declaration is that of today.
        declared = adoption.today(connection, first.declared)
        refuse_other_columns(job_key, declared, files)
    with locations.folder(folder, access, "BULK_LANDING_URL") as storage, transaction(pool) as connection:
        # Retention may remove them meanwhile: then all are read, or none.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        rejects.refuse_lacking(connection, job.job_id)
        written = replaying.write(storage, job_key, files, rejects.every(connection, job.job_id))
    if not written:
        raise Conflict(f"none of the rejected records of job {job_key} was kept whole: they were too large")
    with transaction(pool) as connection:
        request = ImportRequest(
            first.resource,
            tuple(written),
            first.mode,
            match_on=first.match_on,
            on_error=first.on_error,
            replay_of=job_key,
            declaration=None if declared.built_in else declared,
        )
        sender = Sender(job.owner, by.origin, key, by.request_id, job.trace_parent, by=by.name, address=by.address)
        submitted = submit(connection, request, sender)
        if submitted.created:
            audit.note(connection, by, "replay", job.job_id, replay=submitted.job.job_key)
        return submitted


def replay_mended(
    connection: Connection,
    job_key: str,
    files: Sequence[RequestedFile],
    by: Actor,
    idempotency_key: str | None = None,
    *,
    sent: SentFile | None = None,
    content: str | None = None,
) -> Submitted:
    """Import records that a person has mended, as the import that rejected them was asked for. The new import belongs
    to the owner of the first one, and names it. There may be any number of them: what is still wrong is rejected again,
    and can be mended again. `sent` is the upload that the records came in, and `content` stands for their bytes: equal
    requests have these in common, wherever they were landed."""
    job = import_job(connection, job_key, by.sees)
    if not job.finished:
        raise Conflict(f"job {job_key} is {job.status}: wait for its end, or cancel it first")
    first = ImportRequest.from_params(job.params)
    imported = progress.files(connection, job.job_id)
    of_table = any(each.layout is not None and each.layout.as_text is not each.layout for each in imported)
    request = replace(
        first,
        files=tuple(files),
        format=None if of_table else first.format,
        compression=None,
        replay_of=job_key,
        within=None,
        reading=first.reading.of_records(of_table=of_table),
    ).check()
    same = None if content is None else replace(request, files=(RequestedFile(content),)).identity()
    sender = Sender(
        job.owner,
        by.origin,
        idempotency_key,
        by.request_id,
        job.trace_parent,
        by=by.name,
        address=by.address,
        file=sent,
    )
    submitted = submit(connection, request, sender, same)
    if submitted.created:
        audit.note(connection, by, "replay", job.job_id, replay=submitted.job.job_key)
    return submitted
