"""Receivers of notices on a real server, subscriptions to them, and notices that are sent until nothing is left."""

import base64
import hashlib
import hmac
import json
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items.leases import Lease
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.outcomes import Bury, Done, Outcome
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.engine.worker.tools import Tools
from bulk_pipelines.notices import subscriptions
from bulk_pipelines.notices.kind import KINDS
from bulk_pipelines.notices.outbox import Emptied
from bulk_pipelines.notices.request import EventType, Subscription
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.servers.web_server import Answer, Handler, WebServer, status

ME = Actor("me", "cli")
EVERYTHING = [each for each in EventType if not each.of_sources]


class Receiver(WebServer):
    """A receiver of notices. It keeps what it is sent, and answers as a test says."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__()
        self.answers = list(answers)
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.server.RequestHandlerClass = Posted

    @property
    def address(self) -> str:
        return f"{self.url}/hook?token=abc"


class Posted(Handler):
    def do_POST(self) -> None:  # noqa: N802 - the base class names it so
        receiver = self.server.web
        assert isinstance(receiver, Receiver)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
        (receiver.answers.pop(0) if receiver.answers else status(204))(self)


def subscribed(engine: Engine, address: str, *types: EventType, owner: str = "me", **options: Any) -> Subscription:
    with transaction(engine) as connection:
        options = {"private": True} | options
        return subscriptions.add(connection, ME, owner, address, types or EVERYTHING, **options)


def ended(engine: Engine, dead: int = 0, *, items: int = 4, owner: str = "me") -> Job:
    """Work a job to its end, so that its end can be told. Its first items are buried, as many as `dead` says."""

    def handle(lease: Lease, tools: Tools) -> Outcome:
        return Bury("no") if lease.input["n"] < dead else Done()

    kinds = engine_jobs.only(engine_jobs.kind(handle))
    job = engine_jobs.running(engine, items, kinds=kinds, owner=owner)
    with Worker(engine, kinds, job) as worker:
        drain.drain(worker)
    return engine_jobs.found(engine, job)


def delivered(engine: Engine, done: Emptied, tries: int = 20) -> Job:
    """Work the job of notices to its end; what waits for a retry is due at once."""
    (job_key,) = done.jobs
    with transaction(engine) as connection:
        job = jobs.start(connection, job_key)
    for _ in range(tries):
        with Worker(engine, KINDS, job, random=lambda: 0.0) as worker:
            drain.drain(worker, patient=False)
        job = engine_jobs.found(engine, job)
        if job.finished:
            break
        engine_jobs.make_due(engine, job)
    return job


def verify(secret: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    """Do what a receiver does, by the words of the standard."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.split("_")[1]), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    found: dict[str, Any] = json.loads(body)
    assert found["id"] == headers["webhook-id"]
    return found
