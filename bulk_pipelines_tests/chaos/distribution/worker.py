"""A worker as a process: python -m bulk_pipelines_tests.chaos.distribution.worker JOB [POINT COUNT].

The settings say all the rest. With a point it is killed there, the COUNTth time it comes to it, as by `kill -9`.
"""

import sys
from typing import Any

from bulk_pipelines import settings
from bulk_pipelines.database import pool
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import completion, work
from bulk_pipelines.distribution import kind as kinds
from bulk_pipelines.distribution.files import registry
from bulk_pipelines.distribution.files.contents import Contents
from bulk_pipelines.engine.jobs import end, jobs
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.settler import Settler
from bulk_pipelines.storage.local.storage import LocalStorage
from bulk_pipelines.storage.s3.storage import S3Storage
from bulk_pipelines_tests.chaos.deadly import kill_after

POINTS: dict[str, list[tuple[Any, str]]] = {
    "claimed": [(work.Distributor, "prepare")],
    "read": [(Contents, "fetch")],
    "put": [(S3Storage, "put"), (LocalStorage, "put")],
    "published": [(work.Distributor, "published")],
    "recorded, not committed": [(registry, "record")],
    "settled": [(Settler, "take_note")],
    "ending, not committed": [(completion, "finish")],
    "ended": [(end, "end")],
}
"""Where a process can die: after each of these."""


def main(job_key: str, point: str = "", count: str = "1") -> None:
    for owner, name in POINTS.get(point, []):
        kill_after(owner, name, int(count))
    chosen = settings.current()
    engine = pool.connect(chosen.database_url, application="lane")
    kind = kinds.kind_of(chosen)
    with transaction(engine) as connection:
        job = jobs.find(connection, job_key)
    print("working", flush=True)
    with Worker(engine, {kind.name: kind}, job) as worker:
        print(drain(worker), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
