"""The rows of an import, and the file of an export, as frames."""

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from sqlalchemy import Engine

from bulk_pipelines import resources, settings
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import Conflict
from bulk_pipelines.exports import streaming
from bulk_pipelines.exports.filters import Filter, Operator
from bulk_pipelines.exports.kind import known_kinds as export_kinds
from bulk_pipelines.exports.publish import recount, target
from bulk_pipelines.exports.publish.target import Place
from bulk_pipelines.exports.request import ExportRequest, Format, Order
from bulk_pipelines.formats import parquet
from bulk_pipelines.imports.kind import known_kinds as import_kinds
from bulk_pipelines.imports.request import ImportRequest
from bulk_pipelines.orchestration.failures import has_failed
from bulk_pipelines.processing.intake.records import Pieces
from bulk_pipelines.resources.declaration import PROVENANCE, Column, Resource

BUFFER = 1 << 20
LONGEST_RECORD = 64 << 20
"""The longest record of a CSV file in bytes, because the reader holds so many at once."""


def of_job(pool: Engine, job_key: str) -> pa.RecordBatchReader:
    """Return the rows of an import, or those in the file of an export."""
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
    if job.kind in export_kinds():
        return of_export(pool, job_key)
    return of_import(pool, job_key)


def of_import(pool: Engine, job_key: str) -> pa.RecordBatchReader:
    """Return the rows that stand in the table and come from an import, in the order of its file."""
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
    if job.kind not in import_kinds():
        resources.refuse_kind(job_key, job.kind, "import")
    check_ended(job)
    return of_table(pool, ImportRequest.from_params(job.params).declared, job.job_id)


def of_table(pool: Engine, declared: Resource, job_id: int) -> pa.RecordBatchReader:
    """Return the rows of a table that come from the job."""
    if not declared.provenance:
        raise Conflict(
            f"the rows of {'.'.join(declared.place)} do not say which import they come from: `bulk resources adopt"
            f" --provenance` gives the table the columns for it, for imports from then on"
        )
    traced = replace(declared, columns=declared.columns + tuple(map(origin, PROVENANCE[:2])))
    request = ExportRequest(
        declared.name,
        Format.ARROW,
        declared.column_names,
        (Filter(PROVENANCE[0], Operator.EQUAL, (str(job_id),)),),
        (Order(PROVENANCE[1]),),
        declaration=traced,
    )

    def batches() -> Iterator[pa.RecordBatch]:
        with closing(streaming.stream(pool, request)) as pieces:
            yield from pa.ipc.open_stream(opened(pieces))

    return pa.RecordBatchReader.from_batches(parquet.schema(request.columns), batches())


def origin(name: str) -> Column:
    return Column(name, ColumnKind.BIGINT, "where the row comes from")


def check_ended(job: Job) -> None:
    """Refuse a job that has not ended well, because a part of its rows would look like all of them."""
    if job.status not in (JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS):
        raise Conflict(f"job {job.job_key} is {job.status}: only what has completed is read")
    if has_failed(job):
        raise Conflict(f"job {job.job_key} has dead letters: its rows are not complete before they are tried again")


def of_export(pool: Engine, job_key: str) -> pa.RecordBatchReader:
    """Return the rows in the file of an export."""
    with transaction(pool) as connection:
        job = jobs.find(connection, job_key)
    if job.kind not in export_kinds():
        resources.refuse_kind(job_key, job.kind, "export")
    check_ended(job)
    request = ExportRequest.from_params(job.params)
    if request.format not in READ:
        raise Conflict(
            f"the file of {job_key} is {request.format}, which holds no types: a frame is read from"
            f" {', '.join(READ)}; {request.format} is for people and other programs"
        )

    def batches() -> Iterator[pa.RecordBatch]:
        with target.opened(request, job_key, settings.current()) as place:
            check_unchanged(place, job)
            yield from READ[request.format](place, request)

    return pa.RecordBatchReader.from_batches(parquet.schema(request.columns), batches())


def check_unchanged(place: Place, job: Job) -> None:
    """Refuse a file that was changed since the export wrote it. Only a file under a name that somebody chose can be."""
    if place.is_ours:
        return
    found = hashlib.sha256()
    with place.storage.open(place.key) as reader:
        for piece in reader:
            found.update(piece)
    if found.hexdigest() != (job.result or {}).get("sha256"):
        raise Conflict(f"{place.url} is not the file that {job.job_key} has written: it was changed since")


def opened(pieces: Iterator[bytes]) -> Any:
    return io.BufferedReader(Pieces(pieces), BUFFER)


def of_parquet(place: Place, _: ExportRequest) -> Iterator[pa.RecordBatch]:
    with recount.opened(place.storage, place.key) as file:
        yield from pa.parquet.ParquetFile(file, pre_buffer=False).iter_batches()


def of_arrow(place: Place, _: ExportRequest) -> Iterator[pa.RecordBatch]:
    with place.storage.open(place.key) as reader:
        yield from pa.ipc.open_stream(opened(iter(reader)))


def of_csv(place: Place, request: ExportRequest) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file, with the types that their columns have. Lists stand in it as JSON."""
    schema = parquet.schema(request.columns)
    flat: dict[str, pa.DataType] = {
        field.name: pa.string() if pa.types.is_list(field.type) else field.type for field in schema
    }
    reader = pa.csv.open_csv(
        opened(recount.unpacked(place.storage, place.key, request)),
        pa.csv.ReadOptions(use_threads=False, block_size=LONGEST_RECORD),
        pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pa.csv.ConvertOptions(
            column_types=flat, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    for batch in reader:
        columns = [
            listed(values) if pa.types.is_list(field.type) else values
            for field, values in zip(schema, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def listed(texts: Any) -> Any:
    return pa.array([None if each is None else json.loads(each) for each in texts.to_pylist()], pa.list_(pa.string()))


READ = {Format.PARQUET: of_parquet, Format.ARROW: of_arrow, Format.CSV: of_csv}
