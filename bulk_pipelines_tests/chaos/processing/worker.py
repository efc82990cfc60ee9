"""A worker as a process: python -m bulk_pipelines_tests.chaos.processing.worker JOB [POINT COUNT].

It plans the job if nobody has, and works it. With a point it is killed there, the COUNTth time it comes to it, as by
`kill -9`.
"""

import sys
from typing import Any

from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.intake import persist
from bulk_pipelines.engine.jobs import end, jobs
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.settler import Settler
from bulk_pipelines.processing import results
from bulk_pipelines.processing.image import doubles, looking
from bulk_pipelines.processing.intake import planning, sources
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines.processing.match import matching
from bulk_pipelines.processing.providers import answers
from bulk_pipelines.processing.providers.client import Client
from bulk_pipelines_tests.chaos.deadly import kill_after

POINTS: dict[str, list[tuple[Any, str]]] = {
    "landed": [(sources, "land")],
    "copied, not committed": [(persist, "copy_batch")],
    "all persisted": [(persist, "copy_items")],
    "sealed": [(jobs, "seal")],
    "asking": [(answers, "begin")],
    "answered": [(Client, "call")],
    "kept": [(answers, "keep")],
    "settled": [(Settler, "take_note")],
    "ended": [(end, "end")],
    "claim prepared": [(matching, "candidates")],
    "row worked": [(results, "settled")],
    "files added": [(persist, "add_batch")],
    "thumbnail written": [(looking, "written_thumbnail")],
    "doubles found": [(doubles, "note")],
}
"""Where a process can die: after each of these."""


def main(job_key: str, point: str = "", count: str = "1") -> None:
    for owner, name in POINTS.get(point, []):
        kill_after(owner, name, int(count))
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
