"""What a command does in a process of its own, because it needs Dagster. `bulk import` and its like have one job worked
as a run of the installation's Dagster; `bulk sweep`, `bulk finalize` and `bulk prune` make one pass."""

import json
import sys

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.execution.api import execute_run
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteRepositoryOrigin

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.definitions import launched, passes
from bulk_pipelines.engine.jobs import dispatch, jobs
from bulk_pipelines.errors import BulkError
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.runs import BUDGET_TAG, PARTITION, UNLIMITED
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines.up import home
from bulk_pipelines.up.home import LOCATION
from bulk_pipelines.up.services import MODULE

PASSES = ("sweep", "finalize", "prune")


def run_here(job_key: str) -> bool:
    """Work the job in this process, and return whether the run succeeded. The relay leaves the job alone, because its
    run has begun."""
    with transaction(Database().engine) as connection:
        job = jobs.find(connection, job_key)
        dispatch.begun(connection, job.job_id)
    pipeline = next(each.pipeline for each in launched if each.pipeline.kind.name == job.kind)
    # The job is described as the code server describes it, so that Dagster keeps of this run what it keeps of a run
    # that it launched itself.
    code = ReconstructableRepository.for_module(MODULE, "defs", str(CHECKOUT)).get_reconstructable_job(job.kind)
    with dg.DagsterInstance.get() as instance:
        run = instance.create_run_for_job(
            code.get_definition(),
            run_config=pipeline.run_config(job),
            tags={
                PARTITION: job_key,
                "bulk/owner": job.owner,
                "bulk/origin": job.origin,
                BUDGET_TAG: UNLIMITED,
            },
            remote_job_origin=origin().get_job_origin(job.kind),
            job_code_origin=code.get_python_origin(),
        )
        with execute_run(code, run, instance) as result:
            return result.success


def origin() -> RemoteRepositoryOrigin:
    """Return the code location as this installation's web server and daemon know it. By this a run is shown among the
    runs of its job, and can be executed again."""
    socket = str(home.place(settings.current()).socket)
    location = GrpcServerCodeLocationOrigin("localhost", socket=socket, location_name=LOCATION)
    return RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME)


Row = tuple[str, int, str | None]
"""What a pass did, how often, and why it could not do it."""


def pass_here(name: str, dry_run: bool) -> list[Row]:
    """Make the pass that the schedule of this name makes, and return what it did."""
    pool = Database().engine
    with dg.DagsterInstance.get() as instance:
        match name:
            case "sweep":
                return [(*each, None) for each in passes.sweep(pool, instance).items()]
            case "finalize":
                return [(*each, None) for each in passes.finalize(pool).items()]
            case _:
                pruned = passes.prune(pool, instance, settings.current(), dry_run)
                return [(each.name, each.count, each.problem) for each in pruned]


def answer(name: str, dry_run: bool) -> str:
    """Return what the pass did, or why it failed, as JSON for the command that started this process."""
    try:
        return json.dumps({"rows": pass_here(name, dry_run)})
    except BulkError as error:
        return json.dumps({"error": str(error)})


if __name__ == "__main__":
    wanted, *options = sys.argv[1:]
    if wanted in PASSES:
        sys.stdout.write(answer(wanted, "--dry-run" in options) + "\n")
    else:
        sys.exit(not run_here(wanted))
