"""Two processes, fifty equal requests under one key, and one of the processes killed in the middle: one job."""

import concurrent.futures
import random
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.imports.sent import clearing
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes.api import Api, bearer, process
from bulk_pipelines_tests.scenes.api_imports import count, done, landed, users
from bulk_pipelines_tests.scenes.today import SEED

REQUESTS = 50
CONTENT = users(*range(20_000))


@pytest.mark.long
def test_fifty_equal_requests_make_one_job_though_a_process_is_killed(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path))
    text = Api(engine, Settings(home=tmp_path), "").text("ada")
    headers = {**bearer(text), "Idempotency-Key": "race", "Content-Type": "text/csv"}
    chance = random.Random(SEED)

    def ask(url: str) -> tuple[int, str | None]:
        try:
            answer = httpx.post(
                f"{url}/v1/imports", params={"resource": "users"}, content=CONTENT, headers=headers, timeout=60
            )
        except httpx.TransportError:
            return 0, None
        return answer.status_code, answer.json().get("job_id")

    with process(database_url, tmp_path) as (first, one), process(database_url, tmp_path) as (_, other):
        with concurrent.futures.ThreadPoolExecutor(REQUESTS) as executor:
            asked = [executor.submit(ask, chance.choice((one, other))) for _ in range(REQUESTS)]
            next(concurrent.futures.as_completed(asked))
            first.send_signal(signal.SIGKILL)
            answers = [each.result() for each in asked]
        with engine.begin() as connection:  # the time in which a dead process is waited for is over
            connection.exec_driver_sql("UPDATE upload SET expires_at = now() - interval '1 s' WHERE state = 'ARRIVING'")
        last = ask(other)
    statuses = Counter(status for status, _ in answers)
    assert set(statuses) <= {0, 200, 202, 409}, statuses
    assert statuses[202] <= 1
    assert last[0] in (200, 202)
    assert {key for status, key in answers if status in (200, 202)} <= {last[1]}
    assert count(engine, "SELECT count(*) FROM job") == 1
    clearing.clear_all(engine)
    assert landed(Api(engine, Settings(home=tmp_path), "")) == [f"{last[1]}/000001-sent"]
    done(engine, str(last[1]))
    assert count(engine, "SELECT count(*) FROM users") == 20_000
