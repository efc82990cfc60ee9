"""A worker of a distribution as a process: python -m bulk_pipelines_tests.chaos.distribution.worker JOB."""

import sys

from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import kind as kinds
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker


def main(job_key: str) -> None:
    chosen = settings.current()
    engine = pool.connect(chosen.database_url, application="lane")
    kind = kinds.kind_of(chosen)
    with transaction(engine) as connection:
        job = jobs.find(connection, job_key)
    print("working", flush=True)
    with Worker(engine, {kind.name: kind}, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
