"""A worker of an export as a process: python -m bulk_pipelines_tests.chaos.exports.worker JOB_KEY."""

import sys

from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines_tests.scenes.exports import QUICK


def main(job_key: str) -> None:
    engine = pool.connect(settings.current().database_url, application="worker")
    with transaction(engine) as connection:
        job = jobs.find(connection, job_key)
    with Worker(engine, QUICK, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
