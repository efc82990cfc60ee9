"""A worker that is killed after a notice was sent, and before that is written down: the notice comes again, under the
same id, and its job ends well."""

import json
import signal
import subprocess
import sys

import pytest
from sqlalchemy import Engine

from bulk_pipelines import settings
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.items import rescue
from bulk_pipelines.engine.jobs import jobs, submission
from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.notices import outbox, subscriptions
from bulk_pipelines.notices.kind import KINDS
from bulk_pipelines.notices.request import EventType
from bulk_pipelines.settings import CHECKOUT
from bulk_pipelines_tests.chaos.deadly import SETTLING, run_until
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer


def start(url: str, job_key: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bulk_pipelines_tests.chaos.notices.worker", job_key]
    return subprocess.Popen(command, env=settings.environment(BULK_DATABASE_URL=url), cwd=CHECKOUT)


@pytest.mark.long
def test_killed_between_sending_and_settling(engine: Engine, database_url: str) -> None:
    def taken(call: Call) -> dict[str, str]:
        return {}

    with ProviderServer(taken) as server:
        with transaction(engine) as connection:
            address = server.url + "hook"
            by = Actor("me", "cli")
            subscriptions.add(connection, by, "me", address, [EventType.JOB_FAILED], private=True)
            for _ in range(3):
                job = submission.submit(connection, engine_jobs.WORK, submission.Request("work", "me", {})).job
                jobs.start(connection, job.job_key)
                jobs.fail(connection, job.job_key, "no")
        (job_key,) = outbox.run_once(engine).jobs
        assert run_until(database_url, SETTLING, lambda url: start(url, job_key)) == -signal.SIGKILL
        with transaction(engine) as connection:
            connection.execute(engine_jobs.ALL_RUN_OUT)
        rescue.run_once(engine, KINDS, lambda: 0.0)
        assert start(database_url, job_key).wait(240) == 0
        # The others that were being sent when the worker was killed may have broken off.
        whole = [call for call in server.calls if len(call.body) == int(call.headers["Content-Length"])]
        sent = [json.loads(call.body)["id"] for call in whole]
    with transaction(engine) as connection:
        job = jobs.find(connection, job_key)
    assert (job.status, job.succeeded_items) == (JobState.COMPLETED, 3)
    assert len(set(sent)) == 3, "each notice has one id"
    assert 3 < len(sent) <= 6 + 3, "what was sent and not written down is sent again"
