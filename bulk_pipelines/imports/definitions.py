"""Imports in Dagster: each table is an asset with one partition for each import, and a job imports a file by hand."""

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from bulk_pipelines import resources, settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.imports import completion, progress, submission, winding_up
from bulk_pipelines.imports.counts import records_were
from bulk_pipelines.imports.kind import kinds_of
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.report import report
from bulk_pipelines.imports.request import Options, RequestedFile, kind_name
from bulk_pipelines.orchestration.checks import job_to_check
from bulk_pipelines.orchestration.launchpad import FileConfig, follow
from bulk_pipelines.orchestration.pipeline import Launchable, Metadata, Pipeline, behind, launchable, partitions
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.steps import graph
from bulk_pipelines.resources import adoption, written
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.settings import shipped

SMALL_BYTES = 4 * 1024 * 1024
HIGH_ERROR_RATE = completion.HIGH_ERROR_RATE

TABLE_OF_REJECTS = dg.TableSchema(
    columns=[
        dg.TableColumn("line", "int"),
        dg.TableColumn("reasons", "string"),
        dg.TableColumn("fields", "string"),
        dg.TableColumn("record", "string"),
    ]
)


def pipeline(resource: Resource) -> Pipeline:
    kinds = kinds_of(limits_of(settings.current().engine))
    return Pipeline(kinds[kind_name(resource.name)], planning.plan, metadata, small, winding_up.wind_up)


def small(job: Job) -> bool:
    """Tell whether the files are so small that one process loads them before another one would have started."""
    size = job.params["size"]
    return size is not None and size <= SMALL_BYTES


def metadata(pool: Engine, job: Job) -> Metadata:
    found = report.report(pool, job)
    counts = found.progress.counts
    shown: dict[str, dg.MetadataValue | str | int | float] = {
        "rows_read": counts.read,
        "rows_loaded": counts.loaded,
        "rows_rejected": counts.rejected,
        "rows_unprocessed": counts.unprocessed,
        "batches": found.progress.batches,
        "rows_per_second": float(found.result.get("rows_per_second", 0.0)),
        "error_rate": float(found.result.get("error_rate", 0.0)),
        "seconds": float(found.result.get("seconds", 0.0)),
        "load_seconds": float(found.result.get("load_seconds", 0.0)),
        "sources": dg.MetadataValue.json(found.sources),
        "how_the_batches_went": dg.MetadataValue.md(found.picture),
        "dagster/partition_row_count": counts.loaded,
        "state": job.status.value,
    }
    if "match_on" in found.result:
        shown |= {
            "matched_on": found.result["match_on"],
            "rows_inserted": counts.inserted,
            "rows_updated": counts.updated,
            "rows_unchanged": counts.unchanged,
        }
    if counts.superseded:
        shown["rows_superseded"] = counts.superseded
    if counts.waiting:
        shown["rows_waiting"] = counts.waiting
    if counts.valid:
        shown["rows_valid"] = counts.valid
    if found.rejects:
        rows = [dg.TableRecord(each) for each in found.rejects]
        shown["first_rejects"] = dg.MetadataValue.table(rows, TABLE_OF_REJECTS)
        shown["all_rejects"] = f"bulk import errors {job.job_key}"
    return shown


def asset(resource: Resource, lanes: int) -> dg.AssetsDefinition:
    """Define the asset that is the table of a resource. It depends on the assets of the resources it refers to."""
    needed = behind(resources.referred_to(resource))
    return dg.graph_asset(
        name=resource.name,
        description=f"{resource.says} One partition is one import; its figures are of that import.",
        group_name="imports",
        kinds={"postgres", "table"},
        tags={"layer": "table"},
        owners=["team:data-platform"],
        partitions_def=partitions(kind_name(resource.name)),
        metadata={"dagster/table_name": ".".join(resource.place)} if resource.columns else {},
        ins=needed,
    )(graph(pipeline(resource), lanes, list(needed)))


def checks(resource: Resource) -> list[dg.AssetChecksDefinition]:
    @dg.asset_check(
        asset=resource.name,
        name="error_rate",
        description=f"Of the records of an import, at most {HIGH_ERROR_RATE:.0%} are rejected.",
    )
    def error_rate(context: dg.AssetCheckExecutionContext, database: Database) -> dg.AssetCheckResult:
        with transaction(database.engine) as connection:
            found, _ = progress.to_check(connection, job_to_check(context, resource.name))
        counts = found.counts
        rate = counts.rejected / counts.read if counts.read else 0.0
        return dg.AssetCheckResult(
            passed=rate <= HIGH_ERROR_RATE,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{rate:.1%} of {records_were(counts.read)} rejected",
            metadata={"error_rate": rate},
        )

    @dg.asset_check(
        asset=resource.name,
        name="counts_add_up",
        description="Every record of the files is loaded, rejected, superseded or unprocessed; every reject is kept.",
    )
    def counts_add_up(context: dg.AssetCheckExecutionContext, database: Database) -> dg.AssetCheckResult:
        with transaction(database.engine) as connection:
            found, kept = progress.to_check(connection, job_to_check(context, resource.name))
        problem = report.balance(found, kept)
        return dg.AssetCheckResult(
            passed=problem is None,
            severity=dg.AssetCheckSeverity.ERROR,
            description=problem or "they add up",
            metadata=vars(found.counts),
        )

    return [error_rate, counts_add_up]


EXAMPLE = {"source": str(shipped("samples/users.csv")), "resource": "users", "mode": "upsert"}
"""The configuration that the launchpad shows when it opens."""


class ImportConfig(FileConfig):
    source: str = Field(
        description="A path, or the address of a file: s3://, ftp://, ftps://, sftp://, http://, https://.",
    )
    resource: str | None = Field(
        default=None, description="What the records are: users, articles, comments, or an adopted table."
    )
    table: str | None = Field(default=None, description="In place of a resource, any table: orders, shop.orders.")
    mode: str = Field(default="insert", description="insert: only new rows. upsert: new rows and changes.")
    format: str | None = Field(
        default=None, description="csv, ndjson, json, xlsx, parquet or arrow; recognised when left out."
    )
    compression: str | None = Field(
        default=None, description="none, gzip, zstd, bzip2 or xz; recognised when left out."
    )
    match_on: str | None = Field(default=None, description="Upsert: the column that tells which row is meant.")
    on_error: str = Field(
        default="continue",
        description="How many rejects are accepted: continue: any number; abort: none; 100 or 5%: so many.",
    )
    validate_only: bool = Field(default=False, description="Load nothing, report everything.")


@dg.op(description="Submits the import; the relay launches it within seconds, as a partition of its table's asset.")
def submit_import(context: dg.OpExecutionContext, database: Database, config: ImportConfig) -> None:
    with transaction(database.engine) as connection:
        declared = adoption.chosen(connection, config.resource, config.table)
    options = Options(
        declared.name,
        config.mode,
        config.format,
        config.compression,
        config.match_on,
        config.on_error,
        config.validate_only,
        reading=config.reading,
        declaration=None if declared.built_in else declared,
    )
    request = options.request((RequestedFile.of(config.source),))
    with transaction(database.engine) as connection:
        submitted = submission.submit(
            connection,
            request,
            config.sender,
        )
    follow(
        context,
        database.engine,
        submitted,
        f"import of {declared.name}",
        written.job_name(declared.name),
        config,
        resource=declared.name,
    )


@dg.job(
    executor_def=dg.in_process_executor,
    config={"ops": {"submit_import": {"config": EXAMPLE}}},
    description="Imports the file that the launchpad names. Its rows appear as a new partition of the table's asset.",
)
def import_file() -> None:
    submit_import()


def import_assets() -> list[dg.AssetsDefinition]:
    return [asset(resource, settings.current().lanes) for resource in resources.worked()]


def launchables() -> list[Launchable]:
    return [
        launchable(
            pipeline(resource), resource.name, f"Works one import of {resource.name}: land, cut, load, reconcile."
        )
        for resource in resources.worked()
    ]


def imports(launched: list[Launchable]) -> dg.Definitions:
    return dg.Definitions(
        assets=import_assets(),
        asset_checks=[check for resource in resources.worked() for check in checks(resource)],
        jobs=[import_file, *(each.job for each in launched)],
    )
