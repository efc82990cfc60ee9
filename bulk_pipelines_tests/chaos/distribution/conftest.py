"""A scene on a real S3 server, and processes that work its jobs."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import end
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.chaos.deadly import Doomed, run_until
from bulk_pipelines_tests.scenes.distribution import Scene
from bulk_pipelines_tests.scenes.waiting import until
from bulk_pipelines_tests.servers.database_proxy import Point
from bulk_pipelines_tests.servers.faulty_proxy import Behind, Fault, FaultyProxy
from bulk_pipelines_tests.servers.processes import Place


@dataclass
class Chaos:
    scene: Scene
    url: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, job: Job, url: str = "", endpoint: str = "") -> subprocess.Popen[bytes]:
        """Start a worker of the job. It reaches the database, or the storage, by another address if there is one."""
        s3 = self.scene.place.access.s3
        environment = settings.environment(
            BULK_DATABASE_URL=url or self.url,
            BULK_DISTRIBUTION_URL=f"{self.scene.place.url}/exports",
            BULK_DISTRIBUTION_LEASE_SECONDS="1",
            BULK_DISTRIBUTION_BASE_DELAY="0.05",
            BULK_DISTRIBUTION_CONCURRENCY="4",
            BULK_S3_ENDPOINT=endpoint or s3.endpoint,
            BULK_S3_ACCESS_KEY_ID=s3.access_key_id,
            BULK_S3_SECRET_ACCESS_KEY=s3.secret_access_key,
        )
        command = [sys.executable, "-m", "bulk_pipelines_tests.chaos.distribution.worker", job.job_key]
        with (self.folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, cwd=CHECKOUT, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def killed(self, job: Job, point: Point | Fault) -> int:
        """Start a worker that is killed at a point of what it says to the database, or when the storage has answered a
        request, and the answer is lost. Return how it ended."""
        if isinstance(point, Point):
            return run_until(self.url, point, lambda url: self.start(job, url), 60)
        doomed = Doomed()
        with FaultyProxy(Behind(self.scene.place.access.s3.endpoint)) as proxy:
            proxy.add(replace(point, afterwards=doomed.kill))
            return doomed.is_known(self.start(job, endpoint=proxy.endpoint)).wait(60)

    def sweep(self, job: Job) -> None:
        """What the sweeper and the finalizer do, once the leases of the dead have run out."""
        kinds = {self.scene.kind.name: self.scene.kind}

        def swept() -> bool:
            rescue.run_once(self.scene.pool, kinds, lambda: 0.0)
            return "RUNNING" not in self.scene.statuses(job).values()

        until(swept, "the leases of the dead have run out")
        end.run_once(self.scene.pool, kinds)


@pytest.fixture
def chaos(engine: Engine, database_url: str, s3_bucket: Place, tmp_path: Path) -> Iterator[Chaos]:
    made = Chaos(Scene(engine, s3_bucket), database_url, tmp_path)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()
    print((tmp_path / "workers.log").read_text())
