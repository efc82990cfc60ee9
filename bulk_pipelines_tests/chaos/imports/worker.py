"""A lane as a process: python -m bulk_pipelines_tests.chaos.imports.worker JOB_KEY ROWS. ROWS 0: sizes found live."""

import sys
from dataclasses import replace

from bulk_pipelines import settings
from bulk_pipelines.database import advisory, pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.limits import limits_of
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.slices import SliceLimits
from bulk_pipelines.imports.kind import kinds_of
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.settings.engine import EngineSettings

QUICK = SliceLimits(max_claim=1, first_claim=1, lease_floor=2.0)
"""Short leases: what a killed process held is free again soon."""
OFTEN = 1_000
"""How often a range may die. Lanes are killed at random, however far they are: three times by chance is no poison."""
RANGE_BYTES = 1_000_000


def main(job_key: str, rows: int) -> None:
    engine = pool.connect(settings.current().database_url, application="lane")
    planning.RANGE_BYTES = RANGE_BYTES
    limits = limits_of(EngineSettings())
    if rows:
        limits = replace(limits, load=replace(limits.load, min_rows=rows, start_rows=rows, max_rows=rows))
    patient = replace(limits.retry, max_deaths=OFTEN, max_attempts=OFTEN)
    kinds = Kinds(replace(kind, slices=QUICK, retry=patient) for kind in kinds_of(limits).values())
    with advisory.held(engine, f"plan of {job_key}") as ours:
        with transaction(engine) as connection:
            job = jobs.find(connection, job_key)
        if ours and job.planned_at is None:
            planning.plan(engine, job)
    print("working", flush=True)
    with Worker(engine, kinds, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
