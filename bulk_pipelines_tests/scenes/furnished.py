"""An installation in which something of everything has happened: jobs of all kinds, in all states, with rejects, dead
letters, a grid, dropped files and keys. Pages are looked at in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import Engine

from bulk_pipelines.api.owners.keys import Scope
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.distribution import submission as distributions
from bulk_pipelines.distribution.kind import kind_of
from bulk_pipelines.distribution.request import DistributionRequest
from bulk_pipelines.distribution.sample import Sample, fill
from bulk_pipelines.engine.items import leases
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.submission import Sender
from bulk_pipelines.engine.kinds import Kinds
from bulk_pipelines.engine.states import JobEvent
from bulk_pipelines.engine.worker.drain import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.exports import submission as exports
from bulk_pipelines.exports.request import ExportRequest
from bulk_pipelines.imports import submission as imports
from bulk_pipelines.imports.request import Options, RequestedFile
from bulk_pipelines.processing import submission as processing
from bulk_pipelines.processing.intake import planning
from bulk_pipelines.processing.recipes import library
from bulk_pipelines.processing.request import ProcessingRequest
from bulk_pipelines.resources import adoption
from bulk_pipelines.settings import current
from bulk_pipelines_tests.scenes import exports as export_scenes
from bulk_pipelines_tests.scenes.api import Api, serving_here
from bulk_pipelines_tests.scenes.inbox import Inbox
from bulk_pipelines_tests.scenes.processing import Scene
from bulk_pipelines_tests.scenes.whole_imports import begun, refreshed, worked
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said

HEADER = "id,email,name,role,active\n"
ADA = Actor("ada", "api", "192.0.2.7", admin=False)

ORDERS = """
CREATE SCHEMA shop;
CREATE TABLE shop.orders (
    number integer PRIMARY KEY,
    customer text NOT NULL,
    total numeric(12, 2) NOT NULL,
    ordered_on date
);
COMMENT ON TABLE shop.orders IS 'What customers have ordered.';
CREATE TABLE shop.customers (email text PRIMARY KEY, name text);
INSERT INTO shop.orders SELECT n, 'customer ' || n, n * 10.5, date '2026-01-01' + n FROM generate_series(1, 25) AS n;
"""
GOODS = {"Lamp Aster": 0.97, "Chair Birk": 0.91, "Desk Calla": 0.55, "Shelf Dahlia": 0.52}


def found_goods(call: Call) -> Said:
    """Answer as a shop does that knows four goods, two of them not quite."""
    asked = call.params.get("q", "")
    items = [
        {"id": f"P{number}", "name": name, "score": score, "price": f"{10 + number}.00 €"}
        for number, (name, score) in enumerate(GOODS.items())
        if name.split()[0].lower() in asked.lower()
    ]
    return Said({"items": items})


@dataclass
class Furnished:
    """What there is, by names that tests use."""

    engine: Engine
    folder: Path
    scene: Scene
    jobs: dict[str, Job] = field(default_factory=dict)

    def drop(self) -> None:
        """Drop files: one whose import fails, one that is still arriving, and one that no rule is for."""
        inbox = Inbox(self.engine, self.folder / "inbox")
        inbox.set(failed_folder="failed")
        inbox.drop("users-2026-01-28.csv", HEADER)
        inbox.look()
        inbox.look()
        inbox.end_jobs(JobEvent.FAIL)
        inbox.clear_up()
        inbox.drop("users-2026-01-29.csv", HEADER)
        inbox.drop("readme.txt", "?")
        inbox.look()

    def item_of(self, name: str) -> int:
        """Return the id of the first item of a job."""
        with transaction(self.engine) as connection:
            row = connection.execute(
                "SELECT min(item_id) FROM job_item WHERE job_id = %s", [self.jobs[name].job_id]
            ).fetchone()
        assert row is not None
        return int(row[0])

    def users(self, name: str, text: str, owner: str = "ada", **options: str) -> Job:
        path = self.folder / name
        path.write_text(HEADER + text, encoding="utf-8")
        with transaction(self.engine) as connection:
            asked = Options("users", **options).request((RequestedFile.of(str(path)),))  # type: ignore[arg-type]
            return imports.submit(connection, asked, Sender(owner, "api", address="192.0.2.7")).job

    def import_all(self) -> None:
        good = "".join(f",user{n}@example.org,User {n},reader,true\n" for n in range(400))
        self.jobs["loaded"] = worked(self.engine, begun(self.engine, self.users("users-2026-01.csv", good)))
        bad = ",nobody,No Address,reader,true\n,eve@example.org,Eve,boss,true\n,mia@example.org,Mia,reader,maybe\n"
        bad += "".join(f",user{n}@example.org,Again {n},reader,true\n" for n in range(9))
        fine = "".join(f",new{n}@example.org,New {n},reader,true\n" for n in range(60))
        self.jobs["rejected"] = worked(self.engine, begun(self.engine, self.users("partners.csv", bad + fine)))
        self.jobs["waiting"] = self.users("later.csv", ",late@example.org,Late,reader,true\n")
        paused = self.users("paused.csv", ",p@example.org,P,reader,true\n")
        cancelled = self.users("cancelled.csv", ",c@example.org,C,reader,true\n")
        with transaction(self.engine) as connection:
            self.jobs["paused"] = jobs.pause(connection, paused.job_key, ADA)
        self.jobs["cancelled"] = jobs.cancel(self.engine, cancelled.job_key, ADA)
        running = begun(self.engine, self.users("running.csv", good.replace("user", "other")))
        with transaction(self.engine) as connection:
            leases.claim(connection, running.job_id, owner="worker-1.example:4711:a1b2c3", most=1, lease_seconds=600)
        self.jobs["running"] = refreshed(self.engine, running)

    def export_one(self) -> None:
        with transaction(self.engine) as connection:
            request = ExportRequest.parse({"resource": "users", "format": "csv", "where": ["role=reader"]})
            job = exports.submit(connection, request, Sender("ada", "cli")).job
            jobs.start(connection, job.job_key)
        self.jobs["exported"] = export_scenes.worked(self.engine, job)

    def distribute(self) -> None:
        kind = kind_of(current())
        with transaction(self.engine) as connection:
            fill(connection, Sample(4, 2, constituents=5))
        inputs = Sample(4, 2).inputs()
        nowhere = [{"indexKey": "NOWHERE", "effectiveDate": 20240101, "asofindicator": "CLS"}]
        for name, wanted in (("distributed", inputs), ("undistributed", [*inputs[:3], *nowhere])):
            job = distributions.submit(self.engine, kind, DistributionRequest.parse(wanted), Sender("ada", "api")).job
            with transaction(self.engine) as connection:
                jobs.start(connection, job.job_key)
            with Worker(self.engine, Kinds([kind]), job) as worker:
                drain(worker)
            self.jobs[name] = refreshed(self.engine, job)

    def adopt(self) -> None:
        """Adopt a table that somebody else has made."""
        with transaction(self.engine) as connection:
            connection.execute(ORDERS)
            adoption.adopt(connection, current(), "shop.orders", None, provenance=True, again=False)

    def process(self) -> None:
        titles = ["Lamp Aster", "Chair Birk", "Desk Calla", "Vase Erika", "Lamp Aster Mini"]
        source = self.scene.file("title,brand\n" + "".join(f"{title},Acme\n" for title in titles), "goods.csv")
        request = ProcessingRequest.parse(library.load(current()).recipe("products"), source=source)
        with transaction(self.engine) as connection:
            job = processing.submit(connection, request, Sender("ada", "api")).job
            jobs.start(connection, job.job_key)
        planning.plan(self.engine, job)
        self.jobs["processed"] = self.scene.worked(job)


SOURCES = """
[[source]]
name = "inbox"
where = "/srv/inbox"
after = "move"
failed_folder = "failed"
[[source.files]]
glob = "users*"
resource = "users"

[[source]]
name = "partners"
where = "s3://partners/incoming"
[[source.files]]
glob = "*.ndjson"
resource = "articles"
mode = "upsert"
"""


@contextmanager
def furnished(engine: Engine, folder: Path) -> Iterator[tuple[Api, Furnished]]:
    """Furnish an installation in this folder, and serve it."""
    patch = pytest.MonkeyPatch()
    try:
        patch.setenv("BULK_RESOURCES", str(folder / "resources"))
        with ProviderServer(found_goods) as shop:
            scene = Scene(engine, folder, patch)
            scene.shop(shop.url)
            made = Furnished(engine, folder, scene)
            made.adopt()
            made.drop()
            made.import_all()
            made.export_one()
            made.distribute()
            made.process()
        sources = folder / "drops.toml"
        sources.write_text(SOURCES)
        with serving_here(
            engine,
            folder / "home",
            recipes_folder=os.environ["BULK_RECIPES"],
            resources_folder=os.environ["BULK_RESOURCES"],
            drops_file=sources,
        ) as api:
            for owner, scope in (("ada", Scope.WRITE), ("root", Scope.ADMIN), ("rita", Scope.READ)):
                api.text(owner, scope)
            yield api, made
    finally:
        patch.undo()
