"""Parts of this project for other people's Dagster projects. Each function returns `Definitions` that can be merged
with theirs: the assets and jobs of a kind, and the sensor that launches these jobs. A project needs `upkeep` once."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import dagster as dg
from dagster_aws.s3 import S3Resource

from bulk_pipelines import resources, settings
from bulk_pipelines.definitions import launched, passes
from bulk_pipelines.distribution import definitions as distributing
from bulk_pipelines.dropping import doors
from bulk_pipelines.drops.definitions import drops as drop_sensors
from bulk_pipelines.exports import definitions as exporting
from bulk_pipelines.exports.request import kind_name as export_kind
from bulk_pipelines.imports import definitions as importing
from bulk_pipelines.imports.request import kind_name as import_kind
from bulk_pipelines.maintenance.definitions import maintenance
from bulk_pipelines.notices import definitions as notices
from bulk_pipelines.orchestration.pipeline import Launchable
from bulk_pipelines.orchestration.relay import relay
from bulk_pipelines.orchestration.resources import Database, s3_resource, step_executor
from bulk_pipelines.processing import definitions as processing_rows

Named = str | Database | None
"""A database: the variable that holds its address, a resource of the project, or that of the settings."""


def table(name: str, *, exports: bool = True, database: Named = None) -> dg.Definitions:
    """Import a declared table and, if wanted, export it: assets with checks, and their jobs. `database` is a
    resource of the project, or names the variable of the environment that holds the database's address; without it, the
    settings name the database."""
    resource = resources.find(name)
    wanted = {import_kind(resource.name)}
    parts = [
        dg.Definitions(
            assets=[importing.asset(resource, settings.current().lanes)], asset_checks=importing.checks(resource)
        )
    ]
    if exports:
        wanted.add(export_kind(resource.name))
        parts.append(dg.Definitions(assets=[exporting.asset(resource)], asset_checks=[exporting.row_count(resource)]))
    return dg.Definitions.merge(*parts, launching(resource.name, wanted), shared(database))


def drops(file: Path | None = None, *, database: Named = None) -> dg.Definitions:
    """Take files that are dropped at the sources of a TOML file. Only jobs are submitted here: the parts `table` and
    `processing` work them."""
    return dg.Definitions.merge(drop_sensors(doors(), [], file), shared(database))


def distribution(*, database: Named = None, s3: S3Resource | None = None) -> dg.Definitions:
    """Write one file for each of many inputs, by the project's own S3 resource, or else by the S3 server that the
    settings name. The key `s3` is left to the project."""
    found = dg.Definitions(
        assets=[distributing.asset(settings.current().lanes)],
        jobs=[distributing.distribute_files],
        resources={"distribution": distributing.Distribution(s3=s3 or s3_resource())},
    )
    return dg.Definitions.merge(found, launching("distribution", kinds(distributing.launchables())), shared(database))


def processing(*, database: Named = None) -> dg.Definitions:
    """Look rows up by recipes."""
    everything = processing_rows.processing([])
    return dg.Definitions.merge(
        everything, launching("processing", kinds(processing_rows.launchables())), shared(database)
    )


def upkeep(*, database: Named = None) -> dg.Definitions:
    """Return what a project needs once: the schedules that rescue items, end jobs and remove what is old; the jobs of
    the launchpad that submit something, and those that pause, resume, cancel and redrive others; and notices."""
    submitting = dg.Definitions(jobs=[importing.import_file, exporting.export_rows])
    telling = dg.Definitions.merge(notices.notices([]), launching("notices", kinds(notices.launchables())))
    return dg.Definitions.merge(maintenance(passes), submitting, telling, shared(database))


def launching(name: str, wanted: set[str]) -> dg.Definitions:
    """Return the jobs of these kinds, with a sensor that launches them. The jobs have an executor of their own, which
    runs a small job in one process, whatever executor the project has. The sensor does not wait for jobs to come,
    because the daemon evaluates sensors one after the other, and the project may have others."""
    chosen = [with_executor(each) for each in launched if each.pipeline.kind.name in wanted]
    return dg.Definitions(jobs=[each.job for each in chosen], sensors=[relay(chosen, listen=0.0, name=f"{name}_relay")])


def with_executor(launchable: Launchable) -> Launchable:
    job = launchable.job
    return Launchable(
        launchable.pipeline,
        dg.define_asset_job(job.name, selection=job.selection, description=job.description, executor_def=step_executor),
    )


def kinds(launchables: Sequence[Launchable]) -> set[str]:
    return {each.pipeline.kind.name for each in launchables}


def shared(database: Named) -> dg.Definitions:
    found = database if isinstance(database, Database) else database_resource(database)
    return dg.Definitions(resources={"database": found})


@cache
def database_resource(variable: str | None) -> Database:
    """Return the database. Parts that are merged must have one and the same object."""
    return Database() if variable is None else Database(url=dg.EnvVar(variable))
