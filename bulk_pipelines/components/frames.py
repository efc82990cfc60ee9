"""Frames in other people's Dagster projects. The rows of an import and the file of an export become frames of pandas,
pyarrow or polars, and a frame that an asset returns becomes an import."""

from typing import Any

import dagster as dg
import pyarrow as pa
from pydantic import Field

from bulk_pipelines.components import frame_imports, frame_rows
from bulk_pipelines.components.frame_imports import Origin
from bulk_pipelines.components.frame_types import Frame, check, framed, spooled
from bulk_pipelines.counted import counted
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.errors import BulkError
from bulk_pipelines.imports import definitions as importing
from bulk_pipelines.imports.report import report
from bulk_pipelines.imports.request import Options
from bulk_pipelines.orchestration.resources import Database, process_pool
from bulk_pipelines.orchestration.steps import reported
from bulk_pipelines.resources import adoption
from bulk_pipelines.resources.declaration import Resource
from bulk_pipelines.storage.errors import Missing

RESOURCE, TABLE = "bulk/resource", "bulk/table"
"""The metadata of an asset that say where its frame goes: the name of a declaration, or any table. Without them, the
asset is called after the declaration."""
JOB = "bulk/job"
"""The metadata of a materialization that names the import. Its value is empty if the frame was empty."""
NOTHING = "an empty frame: nothing was imported"


def rows_of(import_key: str, wanted: type[Frame], *, database: Database | None = None) -> Frame:
    """Return the rows that an import has put into its table and that stand there now, in the order of its file.

    `wanted` is pandas.DataFrame, pyarrow.Table, pyarrow.RecordBatchReader, polars.DataFrame or polars.LazyFrame. A
    reader takes the same memory at any size, and holds a connection until it is read or forgotten.
    """
    check(wanted)
    return framed(frame_rows.of_import((database or Database()).engine, import_key), wanted)


def file_of(export_key: str, wanted: type[Frame], *, database: Database | None = None) -> Frame:
    """Return the rows in the file that an export has written."""
    check(wanted)
    return framed(frame_rows.of_export((database or Database()).engine, export_key), wanted)


class BulkIOManager(dg.ConfigurableIOManager):
    """Imports the frame that an asset returns; gives a downstream asset the rows of an import, or those in the file of
    an export, as the type that it asks for."""

    url: str = Field(default="", description="The address of the database. Empty: the one that the settings name.")
    mode: str = Field(default="insert", description="insert: only new rows. upsert: new rows and changes.")
    match_on: str | None = Field(default=None, description="Upsert: the column that tells which row is meant.")
    on_error: str = Field(
        default="continue",
        description="How many rejects are accepted: continue: any number; abort: none; 100 or 5%: so many.",
    )

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        pool = process_pool(self.url)
        asset = context.asset_key.to_user_string()
        try:
            declared = self.declared(context.asset_key, context.definition_metadata)
            options = Options(
                declared.name,
                self.mode,
                "arrow",
                match_on=self.match_on,
                on_error=self.on_error,
                declaration=None if declared.built_in else declared,
            )
            with spooled(obj) as (file, rows):
                if not rows:
                    context.log.warning(f"{asset} returned {NOTHING}")
                    context.add_output_metadata({JOB: "", "rows_read": 0, "rows_loaded": 0, "rows_rejected": 0})
                    return
                job = frame_imports.imported(pool, file, options, declared, origin_of(context, asset))
        except BulkError as error:
            raise dg.Failure(str(error)) from error
        context.add_output_metadata({JOB: job.job_key, **reported(importing.pipeline(declared), pool, job)})

    def load_input(self, context: dg.InputContext) -> Any:
        pool = process_pool(self.url)
        wanted = context.dagster_type.typing_type
        wanted = pa.Table if wanted is Any else wanted
        try:
            check(wanted)
            job_key = self.job_of(context)
            if job_key is not None:
                return framed(frame_rows.of_job(pool, job_key), wanted)
            output = context.upstream_output
            declared = self.declared(context.asset_key, output.definition_metadata if output else {})
            return framed(frame_rows.of_table(pool, declared, 0), wanted)
        except BulkError as error:
            raise dg.Failure(f"{context.asset_key.to_user_string()}: {error}") from error

    def declared(self, asset: dg.AssetKey, metadata: Any) -> Resource:
        table = metadata.get(TABLE)
        resource = None if table is not None else metadata.get(RESOURCE, asset.path[-1])
        with transaction(process_pool(self.url)) as connection:
            return adoption.chosen(connection, resource, table)

    def job_of(self, context: dg.InputContext) -> str | None:
        """Return the key of the job that is asked for; None if the asset returned an empty frame."""
        keys = list(context.asset_partition_keys) if context.has_asset_partitions else [None]
        if len(keys) != 1:
            raise dg.Failure(
                f"{len(keys)} partitions of {context.asset_key.to_user_string()} are asked for, and a frame has the"
                f" rows of one: give the asset the same partitions, or the input a partition mapping, such as"
                f" dg.AssetIn(partition_mapping=dg.LastPartitionMapping())",
                allow_retries=False,
            )
        made = materialization(context.instance, context.asset_key, keys[0])
        if made is not None and JOB in made.metadata:
            return str(made.metadata[JOB].value) or None
        if keys[0] is None:
            raise Missing(f"{context.asset_key.to_user_string()} has no import: materialize it first")
        return keys[0]


def origin_of(context: dg.OutputContext, asset: str) -> Origin:
    run = context.step_context.dagster_run
    partition = f" of {context.partition_key}" if context.has_partition_key else ""
    return Origin(
        asset,
        f"{asset}{partition} in {run.root_run_id or run.run_id}",
        run.run_id,
        frame_imports.terminated(context.step_context.instance, run.run_id),
    )


def materialization(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partition: str | None
) -> dg.AssetMaterialization | None:
    """Return the last materialization of the asset, or of its partition."""
    wanted = dg.AssetRecordsFilter(asset, asset_partitions=None if partition is None else [partition])
    records = instance.fetch_materializations(wanted, limit=1).records
    return records[0].asset_materialization if records else None


def rejected(asset: dg.AssetsDefinition | dg.AssetKey | str, *, most: int = 0) -> dg.AssetChecksDefinition:
    """Return a check of an asset whose frames are imported: it fails if more than `most` rows were rejected, and shows
    the first rejects as a table. It needs the resource `database`, which the parts bring."""

    @dg.asset_check(
        asset=asset,
        name="rejected",
        description="The import of the frame has rejected no rows." if not most else f"At most {most} are rejected.",
    )
    def check_rejected(context: dg.AssetCheckExecutionContext, database: Database) -> dg.AssetCheckResult:
        (spec,) = context.check_specs
        made = materialization(
            context.instance, spec.asset_key, context.partition_key if context.has_partition_key else None
        )
        if made is None or JOB not in made.metadata:
            return dg.AssetCheckResult(passed=False, description=f"{spec.asset_key.to_user_string()} has no import yet")
        job_key = str(made.metadata[JOB].value)
        if not job_key:
            return dg.AssetCheckResult(passed=True, description=NOTHING)
        with transaction(database.engine) as connection:
            job = jobs.find(connection, job_key)
        shown = report.report(database.engine, job)
        counts = shown.progress.counts
        rows = [dg.TableRecord(each) for each in shown.rejects]
        return dg.AssetCheckResult(
            passed=counts.rejected <= most,
            description=f"{counts.rejected:,} of {counted(counts.read, 'row was', 'rows were')} rejected",
            metadata={
                "rows_read": counts.read,
                "rows_rejected": counts.rejected,
                "first_rejects": dg.MetadataValue.table(rows, importing.TABLE_OF_REJECTS),
                "all_rejects": f"bulk import errors {job_key}",
            },
        )

    return check_rejected
