"""A worker of notices as a process: python -m bulk_pipelines_tests.chaos.notices.worker JOB."""

import sys

from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.notices.kind import KINDS


def main(job_key: str) -> None:
    engine = pool.connect(settings.current().database_url, application="lane")
    with transaction(engine) as connection:
        job = jobs.start(connection, job_key)
    with Worker(engine, KINDS, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
