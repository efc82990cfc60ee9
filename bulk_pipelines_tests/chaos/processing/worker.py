"""A worker as a process: python -m bulk_pipelines_tests.chaos.processing.worker JOB [RENAMES].

It plans the job if nobody has, and works it. With a number it is killed, as by `kill -9`, before it renames that many
files with thumbnails: the last one is written, and does not have its name yet.
"""

import os
import signal
import sys
from typing import Any

from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.kind import KINDS


def die_before_renaming(number: int) -> None:
    left = list(range(number))

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and str(arguments[1]).endswith(".jpg"):
            left.pop()
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(heard)


def main(job_key: str, renames: str = "") -> None:
    if renames:
        die_before_renaming(int(renames))
    engine = pool.connect(settings.current().database_url, application="lane")
    with transaction(engine) as connection:
        if jobs.find(connection, job_key).finished:
            return
        job = jobs.start(connection, job_key)
    if job.planned_at is None:
        planning.plan(engine, job)
    with Worker(engine, KINDS, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
