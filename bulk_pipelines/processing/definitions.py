"""Processing in Dagster: an asset for each type of recipe, with one partition for each job, and a job that lets people
process a file by hand."""

from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.orchestration.checks import job_to_check
from bulk_pipelines.orchestration.launchpad import FileConfig, follow
from bulk_pipelines.orchestration.pipeline import Launchable, Metadata, Pipeline, partitions
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.steps import graph
from bulk_pipelines.processing import submission, types
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.kind import kinds_of
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.recipes.types import RecipeType
from bulk_pipelines.processing.report import grid, report
from bulk_pipelines.processing.request import ProcessingRequest, kind_name
from bulk_pipelines.processing.results import Outcome
from bulk_pipelines.processing.work import recipe_of_job

if TYPE_CHECKING:
    from bulk_pipelines.processing.report.grid import Grid

SMALL_ROWS = 200
"""The most rows of a job that is worked in one process."""
ROWS_PER_LANE = 1_000
SHOWN_ROWS = 10
FAILED_SHARE = 0.1
"""The share of failed rows above which a check fails."""


def pipeline(recipe_type: RecipeType) -> Pipeline:
    return Pipeline(
        kinds_of(limits_of(settings.current().engine))[kind_name(recipe_type.name)],
        planning.plan,
        metadata,
        small=lambda job: job.planned_at is not None and job.total_items <= SMALL_ROWS,
        items_per_lane=ROWS_PER_LANE,
    )


def metadata(pool: Engine, job: Job) -> Metadata:
    recipe = recipe_of_job(job)
    with transaction(pool) as connection:
        counts = report.counts(connection, job.job_id)
        drawn = report.picture(report.scores(connection, job.job_id))
        shape = grid.of_job(connection, job.job_key)
        rows = grid.first_rows(connection, shape, SHOWN_ROWS)
    seconds = job.seconds_at_work
    shown: dict[str, dg.MetadataValue | str | int | float] = {
        "recipe": f"{recipe.name} ({recipe.digest})",
        "state": job.status.value,
        "rows": counts.rows,
        "seconds": seconds,
        "rows_per_second": counts.rows / seconds if seconds else 0.0,
        "kept_answers_share": counts.kept_share,
        "rows_by_provider": dg.MetadataValue.json(dict(counts.providers)),
        "requests": dg.MetadataValue.json(counts.as_json()["requests"]),
        "requests_made": counts.requests_made,
        "waited_seconds": counts.waited_seconds,
        "throttled_seconds": counts.throttled_seconds,
        "first_rows": table(shape, rows),
        "grid": f"bulk grid {job.job_key} --format xlsx",
        "dagster/partition_row_count": counts.rows,
    }
    for outcome in Outcome:
        shown[f"share_{outcome.value.replace(' ', '_')}"] = counts.share(outcome)
    if drawn:
        shown["scores"] = dg.MetadataValue.md(drawn)
    return shown


def table(shape: "Grid", rows: list[tuple[str | None, ...]]) -> dg.MetadataValue:
    names = [each.header for each in shape.columns]
    records = [dg.TableRecord({name: value or "" for name, value in zip(names, row, strict=True)}) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema([dg.TableColumn(name, "string") for name in names]))


def asset(recipe_type: RecipeType, lanes: int) -> dg.AssetsDefinition:
    return dg.graph_asset(
        name=recipe_type.asset,
        description=f"{recipe_type.says} One partition is one job.",
        group_name="processing",
        kinds={"postgres"},
        tags={"layer": "processing"},
        owners=["team:data-platform"],
        partitions_def=partitions(kind_name(recipe_type.name)),
    )(graph(pipeline(recipe_type), lanes))


def checks(recipe_type: RecipeType) -> list[dg.AssetChecksDefinition]:
    def counted(database: Database, job_key: str) -> tuple[report.Counts, float]:
        with transaction(database.engine) as connection:
            job = jobs.find(connection, job_key)
            return report.counts(connection, job.job_id), recipe_of_job(job).matched_share

    @dg.asset_check(
        asset=recipe_type.asset,
        name="matched_share",
        description="As many rows match as the recipe expects.",
    )
    def matched_share(context: dg.AssetCheckExecutionContext, database: Database) -> dg.AssetCheckResult:
        counts, expected = counted(database, job_to_check(context, recipe_type.asset))
        share = counts.share(Outcome.MATCHED)
        return dg.AssetCheckResult(
            passed=share >= expected,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{share:.1%} of the rows match; {expected:.1%} are expected",
            metadata={"matched_share": share},
        )

    @dg.asset_check(
        asset=recipe_type.asset,
        name="failed_share",
        description=f"At most {FAILED_SHARE:.0%} of the rows fail.",
    )
    def failed_share(context: dg.AssetCheckExecutionContext, database: Database) -> dg.AssetCheckResult:
        counts, _ = counted(database, job_to_check(context, recipe_type.asset))
        share = counts.share(Outcome.FAILED)
        return dg.AssetCheckResult(
            passed=share <= FAILED_SHARE,
            severity=dg.AssetCheckSeverity.ERROR,
            description=f"{share:.1%} of the rows failed",
            metadata={"failed_share": share},
        )

    return [matched_share, failed_share]


class ProcessingConfig(FileConfig):
    recipe: str = Field(description="The name of a recipe (see `bulk recipes list`), or a file with one.")
    source: str | None = Field(default=None, description="A path, or the address of a file.")
    query: str | None = Field(default=None, description="A SELECT of this database, in place of a file.")
    table: str | None = Field(default=None, description="A table of this database, in place of a file.")
    format: str | None = Field(
        default=None, description="csv, ndjson, json, xlsx, parquet or arrow; recognised when left out."
    )
    compression: str | None = Field(
        default=None, description="none, gzip, zstd, bzip2 or xz; recognised when left out."
    )


@dg.op(description="Submits the rows; the relay launches the job within seconds, as a partition of its asset.")
def submit_processing(context: dg.OpExecutionContext, database: Database, config: ProcessingConfig) -> None:
    request = ProcessingRequest.parse(
        library.chosen_by(settings.current(), config.recipe),
        source=config.source,
        query=config.query,
        table=config.table,
        format=config.format,
        compression=config.compression,
        reading=config.reading,
    )
    with transaction(database.engine) as connection:
        submitted = submission.submit(
            connection, request, Sender("ui", "ui", config.idempotency_key, priority=config.priority)
        )
    follow(
        context,
        database.engine,
        submitted,
        f"rows for the recipe {config.recipe}",
        types.TYPES[request.recipe.type].asset,
        config,
        recipe=config.recipe,
    )


@dg.job(
    executor_def=dg.in_process_executor,
    description="Processes the rows of a file, a query or a table by a recipe. They appear as a new partition.",
)
def process_rows() -> None:
    submit_processing()


def launchables() -> list[Launchable]:
    return [
        Launchable(
            pipeline(each),
            dg.define_asset_job(
                kind_name(each.name),
                selection=dg.AssetSelection.assets(each.asset),
                description=f"Works one job of the recipe type {each.name}: persist the rows, lease them, settle.",
            ),
        )
        for each in types.TYPES.values()
    ]


def processing(launched: list[Launchable]) -> dg.Definitions:
    lanes = settings.current().lanes
    return dg.Definitions(
        assets=[asset(each, lanes) for each in types.TYPES.values()],
        asset_checks=[check for each in types.TYPES.values() for check in checks(each)],
        jobs=[process_rows, *(each.job for each in launched)],
    )
