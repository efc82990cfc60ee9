"""A lane as a process: python -m bulk_pipelines_tests.chaos.imports.worker JOB_KEY ROWS. ROWS 0: sizes found live."""

import sys
from dataclasses import replace

from bulk_pipelines import settings
from bulk_pipelines.database import advisory, pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.imports import work
from bulk_pipelines.imports.kind import KINDS
from bulk_pipelines.imports.plan import planning

# Short leases: what a killed process held is free again soon.
QUICK = Kinds(replace(kind, slices=SliceLimits(max_claim=1, first_claim=1, lease_floor=2.0)) for kind in KINDS.values())
RANGE_BYTES = 1_000_000


def main(job_key: str, rows: int) -> None:
    engine = pool.connect(settings.current().database_url, application="lane")
    planning.RANGE_BYTES = RANGE_BYTES
    if rows:
        work.BATCHES = replace(work.BATCHES, min_rows=rows, start_rows=rows, max_rows=rows)
    with advisory.held(engine, f"plan of {job_key}") as ours:
        with transaction(engine) as connection:
            job = jobs.find(connection, job_key)
        if ours and job.planned_at is None:
            planning.plan(engine, job)
    print("working", flush=True)
    with Worker(engine, QUICK, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
