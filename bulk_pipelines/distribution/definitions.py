"""Distribution in Dagster: the files are an asset with one partition for each job, and a job lets people ask for files
by hand."""

from dataclasses import replace
from functools import cache
from typing import Any

import dagster as dg
from dagster_aws.s3 import S3Resource
from pydantic import Field
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import kind, report, sample, submission
from bulk_pipelines.distribution.files import file_urls, target
from bulk_pipelines.distribution.report import Figures, File
from bulk_pipelines.distribution.request import KIND, DistributionRequest
from bulk_pipelines.distribution.sample import Sample
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.kinds import Kind
from bulk_pipelines.errors import Conflict
from bulk_pipelines.orchestration.launchpad import SubmissionConfig, follow
from bulk_pipelines.orchestration.pipeline import Launchable, Metadata, Pipeline, launchable, partitions
from bulk_pipelines.orchestration.resources import Database, s3_resource
from bulk_pipelines.orchestration.steps import graph
from bulk_pipelines.storage.access import Access, access_of

SMALL_INPUTS = 500
"""A job of up to so many inputs is worked by one process, which is done with them before another one has started."""
INPUTS_PER_LANE = 250

SLOWEST = dg.TableSchema(
    columns=[
        dg.TableColumn("input", "string"),
        dg.TableColumn("seconds", "float"),
        dg.TableColumn("bytes", "int"),
        dg.TableColumn("rows", "int"),
        dg.TableColumn("reused", "bool"),
    ]
)


class Distribution(dg.ConfigurableResource):  # type: ignore[type-arg]
    """What distribution needs in a step: the settings, and the S3 server of the `s3` resource."""

    s3: S3Resource

    def kind(self) -> Kind:
        return equipped(self.access())

    def access(self) -> Access:
        given = access_of(settings.current())
        return replace(
            given,
            s3=replace(
                given.s3,
                endpoint=self.s3.endpoint_url or "",
                region=self.s3.region_name or given.s3.region,
                access_key_id=self.s3.aws_access_key_id or "",
                secret_access_key=self.s3.aws_secret_access_key or "",
                session_token=self.s3.aws_session_token or "",
            ),
        )


@cache
def equipped(access: Access) -> Kind:
    """Return the kind for this access. All steps of a process get the same one, and so share its connections."""
    return kind.kind_of(settings.current(), access)


def plan(_: Engine, job: Job) -> Job:
    """Refuse a job without items: a distribution is submitted with its inputs, so this job was not submitted as one."""
    raise Conflict(f"job {job.job_key} has no inputs")


def metadata(pool: Engine, job: Job) -> Metadata:
    with transaction(pool) as connection:
        found = report.of_job(connection, job)
    totals = found.totals
    shown: dict[str, dg.MetadataValue | str | int | float] = {
        "inputs": job.total_items,
        "files": totals.files,
        "files_generated": totals.generated,
        "files_reused": totals.reused,
        "reuse_rate": totals.reuse_rate,
        "files_per_second": round(found.files_per_second, 1),
        "seconds": found.seconds,
        "bytes_written": totals.bytes_written,
        "rows_written": totals.rows_written,
        "retries": totals.retries,
        "inputs_failed": job.dlq_items,
        "inputs_not_done": job.open_items + job.cancelled_items,
        "state": job.status.value,
        "dagster/partition_row_count": totals.rows_written,
    }
    return shown | tables(found) | {"all_files": f"bulk distribute status {job.job_key}"}


def tables(found: Figures) -> dict[str, dg.MetadataValue]:
    shown: dict[str, dg.MetadataValue] = {}
    if found.first_files:
        shown["first_files"] = dg.MetadataValue.md(file_table(found.first_files))
        shown["slowest_inputs"] = dg.MetadataValue.table([slow_record(each) for each in found.slowest], SLOWEST)
    return shown


def file_table(files: list[File]) -> str:
    """Return a table of files as Markdown, because the cells of Dagster's tables are text and these are links."""
    chosen = settings.current()
    rows = [
        f"| {file_urls.escaped(each.input)} | {file_urls.markdown(each.path, chosen)} | {each.rows:,} | {each.size:,} "
        f"| {'reused' if each.reused else 'generated'} |"
        for each in files
    ]
    return "\n".join(["| input | file | rows | bytes | |", "| --- | --- | ---: | ---: | --- |", *rows])


def slow_record(file: File) -> dg.TableRecord:
    return dg.TableRecord(
        {
            "input": file.input,
            "seconds": file.seconds,
            "bytes": file.size,
            "rows": file.rows,
            "reused": file.reused,
        }
    )


def pipeline() -> Pipeline:
    return Pipeline(
        kind.kind_of(settings.current()),
        plan,
        metadata,
        small=lambda job: job.total_items <= SMALL_INPUTS,
        items_per_lane=INPUTS_PER_LANE,
        resources=frozenset({"distribution"}),
        equip=lambda resources: resources.distribution.kind(),
    )


EXAMPLE = {"inputs": Sample(indexes=5, days=1, asof_indicators=["CLS"]).inputs(), "sample_data": True}
"""The configuration that the launchpad opens with."""


class DistributionConfig(SubmissionConfig):
    inputs: list[dict[str, Any]] = Field(
        description="What is wanted: indexKey, effectiveDate as YYYYMMDD, asofindicator. One file each.",
    )
    sample_data: bool = Field(
        default=False, description="Make the rows of the example first, so that there is something to distribute."
    )


@dg.op(description="Submits the inputs; the relay launches the job within seconds, as a partition of the asset.")
def submit_distribution(context: dg.OpExecutionContext, database: Database, config: DistributionConfig) -> None:
    if config.sample_data:
        with transaction(database.engine) as connection:
            sample.fill(connection, Sample())
    submitted = submission.submit(
        database.engine,
        kind.kind_of(settings.current()),
        DistributionRequest.parse(config.inputs),
        config.sender,
    )
    inputs = submitted.job.total_items
    follow(
        context,
        database.engine,
        submitted,
        f"distribution of {inputs} inputs",
        "distributed_files",
        config,
        inputs=inputs,
    )


@dg.job(
    executor_def=dg.in_process_executor,
    config={"ops": {"submit_distribution": {"config": EXAMPLE}}},
    description="Asks for the files that the launchpad names. They appear as a new partition of the asset.",
)
def distribute_files() -> None:
    submit_distribution()


def asset(lanes: int) -> dg.AssetsDefinition:
    folder = target.url_of(settings.current())
    return dg.graph_asset(
        name="distributed_files",
        description="A CSV file for each input of a job, generated from a query or reused. One partition is one job.",
        group_name="distribution",
        kinds={"s3" if folder.startswith("s3://") else "file", "csv"},
        tags={"layer": "delivery"},
        owners=["team:data-platform"],
        partitions_def=partitions(KIND),
        metadata={"folder": dg.MetadataValue.path(folder)},
    )(graph(pipeline(), lanes))


def launchables() -> list[Launchable]:
    description = "Works one distribution: lease inputs, write or reuse their files, settle."
    return [launchable(pipeline(), "distributed_files", description)]


def distribution(launched: list[Launchable]) -> dg.Definitions:
    s3 = s3_resource()
    return dg.Definitions(
        assets=[asset(settings.current().lanes)],
        jobs=[distribute_files, *(each.job for each in launched)],
        resources={"s3": s3, "distribution": Distribution(s3=s3)},
    )
