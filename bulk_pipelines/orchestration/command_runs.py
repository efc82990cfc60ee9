"""The runs of commands: one job is worked in this process, as a run of the installation's Dagster."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.execution.api import execute_run
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteRepositoryOrigin

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import dispatch, jobs
from bulk_pipelines.orchestration.pipeline import Launchable
from bulk_pipelines.orchestration.resources import Database
from bulk_pipelines.orchestration.runs import BUDGET_TAG, PARTITION, UNLIMITED


@dataclass(frozen=True)
class CodeLocation:
    """The code of an installation, as its web server and daemon know it. By this a run is shown among the runs of its
    job, and can be executed again."""

    name: str
    socket: str
    """Where the code server listens."""
    module: str
    folder: str
    """The folder in which processes that work a run are started."""

    @property
    def origin(self) -> RemoteRepositoryOrigin:
        location = GrpcServerCodeLocationOrigin("localhost", socket=self.socket, location_name=self.name)
        return RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME)


def instance() -> dg.DagsterInstance:
    """Return Dagster's instance of this process; it is closed as a context."""
    return dg.DagsterInstance.get()


def run_here(job_key: str, launched: Sequence[Launchable], location: CodeLocation) -> bool:
    """Work the job in this process, and return whether the run succeeded. The relay leaves the job alone, because its
    run has begun."""
    with transaction(Database().engine) as connection:
        job = jobs.find(connection, job_key)
        dispatch.begun(connection, job.job_id)
    pipeline = next(each.pipeline for each in launched if each.pipeline.kind.name == job.kind)
    # The job is described as the code server describes it, so that Dagster keeps of this run what it keeps of a run
    # that it launched itself.
    code = ReconstructableRepository.for_module(location.module, "defs", location.folder).get_reconstructable_job(
        job.kind
    )
    with instance() as dagster:
        run = dagster.create_run_for_job(
            code.get_definition(),
            run_config=pipeline.run_config(job),
            tags={
                PARTITION: job_key,
                "bulk/owner": job.owner,
                "bulk/origin": job.origin,
                BUDGET_TAG: UNLIMITED,
            },
            remote_job_origin=location.origin.get_job_origin(job.kind),
            job_code_origin=code.get_python_origin(),
        )
        with execute_run(code, run, dagster) as result:
            return result.success
