"""Exports in Dagster: each table has an asset for its exported files, with one partition for each export. A job lets
people ask for one."""

import json
from typing import Any

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from bulk_pipelines import resources, settings
from bulk_pipelines.columns.kinds import ColumnKind
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.errors import BulkError, Conflict
from bulk_pipelines.exports import completion, submission
from bulk_pipelines.exports.kind import kinds_of
from bulk_pipelines.exports.publish import recount, target
from bulk_pipelines.exports.report import report
from bulk_pipelines.exports.request import ExportRequest, kind_name
from bulk_pipelines.orchestration.checks import job_to_check
from bulk_pipelines.orchestration.launchpad import SubmissionConfig, follow
from bulk_pipelines.orchestration.pipeline import Launchable, Metadata, Pipeline, behind, launchable, partitions
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.steps import graph
from bulk_pipelines.resources.declaration import Resource


def pipeline(resource: Resource) -> Pipeline:
    # An export has one item, so processes of their own for the steps would only cost time.
    kinds = kinds_of(limits_of(settings.current().engine))
    return Pipeline(kinds[kind_name(resource.name)], plan, metadata, small=lambda _: True, wind_up=completion.wind_up)


def plan(_: Engine, job: Job) -> Job:
    """Refuse a job without an item: an export is submitted with its item, so this job was not submitted as one."""
    raise Conflict(f"job {job.job_key} has no item")


def metadata(pool: Engine, job: Job) -> Metadata:
    found = report.report(pool, job)
    shown: dict[str, dg.MetadataValue | str | int | float] = {
        "state": job.status.value,
        "request": dg.MetadataValue.json(found.request.shown()),
    }
    if found.file is None:
        return shown
    shown |= {
        "rows": found.file.rows,
        "bytes": found.file.bytes,
        "rows_per_second": found.file.rows_per_second,
        "seconds": found.file.seconds,
        "location": dg.MetadataValue.path(found.file.location),
        "sha256": found.file.sha256,
        "preview": preview_table(found.request, found.file.preview),
        "dagster/partition_row_count": found.file.rows,
    }
    return shown


def preview_table(request: ExportRequest, records: list[dict[str, Any]]) -> dg.MetadataValue:
    kinds = {ColumnKind.BOOLEAN: "bool"}
    columns = [dg.TableColumn(column.name, kinds.get(column.kind, "string")) for column in request.columns]
    rows = [dg.TableRecord({name: cell(value) for name, value in record.items()}) for record in records]
    return dg.MetadataValue.table(rows, dg.TableSchema(columns=columns))


def cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def asset_name(resource: str) -> str:
    return f"{resource}_export"


def asset(resource: Resource) -> dg.AssetsDefinition:
    """Make the asset of a resource's exported files, which depends on the asset of its table."""
    needed = behind([resource.name])
    return dg.graph_asset(
        name=asset_name(resource.name),
        description=f"Files with rows of {resource.name}: chosen columns and rows, of one moment. One partition is one "
        "export; its file is published whole, or not at all.",
        group_name="exports",
        kinds={"postgres", "file"},
        tags={"layer": "delivery"},
        owners=["team:data-platform"],
        partitions_def=partitions(kind_name(resource.name)),
        ins=needed,
    )(graph(pipeline(resource), 1, list(needed)))


def row_count(resource: Resource) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=asset_name(resource.name),
        name="row_count",
        description="The published file, read again, has as many rows as PostgreSQL counted for the query, in the same "
        "snapshot.",
    )
    def check(context: dg.AssetCheckExecutionContext, database: Database) -> dg.AssetCheckResult:
        with transaction(database.engine) as connection:
            job = jobs.find(connection, job_to_check(context, asset_name(resource.name)))
        request = ExportRequest.from_params(job.params)
        counted = (job.result or {}).get("rows")
        try:
            with target.opened(request, job.job_key, settings.current()) as place:
                found = recount.rows_in(place.storage, place.key, request)
        except BulkError as error:
            return dg.AssetCheckResult(passed=False, description=f"the file cannot be read: {error}")
        return dg.AssetCheckResult(
            passed=found == counted,
            description=f"the file has {found:,} rows, the query {counted:,}",
            metadata={"rows_in_the_file": found, "rows_of_the_query": counted},
        )

    return check


EXAMPLE = {
    "resource": "users",
    "format": "csv",
    "fields": ["id", "email", "name", "role", "created_at"],
    "where": ["active=true", "created_at>=2020-01-01"],
}
"""The configuration that the launchpad opens with."""


class ExportConfig(SubmissionConfig):
    resource: str | None = Field(
        default=None, description="What is exported: users, articles, comments, or an adopted table."
    )
    table: str | None = Field(default=None, description="In place of a resource, any table: orders, shop.orders.")
    query: str | None = Field(default=None, description="In place of a resource, a SELECT of this database.")
    format: str = Field(default="csv", description="csv, ndjson, json, parquet, xlsx or arrow.")
    fields: list[str] = Field(
        default=[],
        description="The columns, in this order; none: all of them.",
    )
    where: list[str] = Field(
        default=[],
        description="Conditions, all of which must hold: role=admin, role in admin,editor, description is null …",
    )
    order: list[str] = Field(default=[], description="Columns to order by, - before one that goes down.")
    compression: str = Field(default="none", description="none, gzip or zstd.")
    escape_formulas: bool = Field(
        default=False, description="csv: an apostrophe before what a spreadsheet would take for a formula."
    )
    to: str = Field(
        default="",
        description="A folder, or a file's name: a path, or an address such as s3://bucket/folder. Empty: the folder "
        "that BULK_EXPORTS_URL names.",
    )


@dg.op(description="Submits the export; the relay launches it within seconds, as a partition of its asset.")
def submit_export(context: dg.OpExecutionContext, database: Database, config: ExportConfig) -> None:
    with transaction(database.engine) as connection:
        source = submission.source(connection, config.resource, config.table, config.query)
    params = config.model_dump(exclude={*SubmissionConfig.model_fields, "resource", "table", "query"})
    request = ExportRequest.parse(params | source)
    target.require_folder(request.to)
    with transaction(database.engine) as connection:
        submitted = submission.submit(connection, request, config.sender)
    follow(
        context,
        database.engine,
        submitted,
        f"export of {request.resource}",
        asset_name(request.kind_name.removeprefix("export_")),
        config,
        resource=request.resource,
    )


@dg.job(
    executor_def=dg.in_process_executor,
    config={"ops": {"submit_export": {"config": EXAMPLE}}},
    description="Exports what the launchpad asks for. The file appears as a new partition of the asset of its table.",
)
def export_rows() -> None:
    submit_export()


def launchables() -> list[Launchable]:
    return [
        launchable(
            pipeline(resource),
            asset_name(resource.name),
            f"Works one export of {resource.name}: read, write, publish, count again.",
        )
        for resource in resources.worked()
    ]


def exports(launched: list[Launchable]) -> dg.Definitions:
    return dg.Definitions(
        assets=[asset(resource) for resource in resources.worked()],
        asset_checks=[row_count(resource) for resource in resources.worked()],
        jobs=[export_rows, *(each.job for each in launched)],
    )
