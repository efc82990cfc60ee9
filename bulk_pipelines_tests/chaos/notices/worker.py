"""A worker of notices as a process: python -m bulk_pipelines_tests.chaos.notices.worker JOB [sent].

With `sent` it is killed, as by `kill -9`, after the first notice was sent and before its item is settled.
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
from bulk_pipelines.notices import sending
from bulk_pipelines.notices.kind import KINDS


def main(job_key: str, point: str = "") -> None:
    if point:
        original = sending.send

        def deadly(*arguments: Any, **options: Any) -> int:
            original(*arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("not reached")

        sending.send = deadly
    engine = pool.connect(settings.current().database_url, application="lane")
    with transaction(engine) as connection:
        job = jobs.start(connection, job_key)
    with Worker(engine, KINDS, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
