"""Two processes, fifty equal requests under one key, and one of the processes killed in the middle: one job. That holds
for imports, for exports, and for rows that are looked up."""

import concurrent.futures
import json
import random
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from bulk_pipelines.imports.sent import clearing
from bulk_pipelines.processing import control
from bulk_pipelines.settings import Settings
from bulk_pipelines_tests.scenes.api import Api, bearer, process
from bulk_pipelines_tests.scenes.api_exports import completed
from bulk_pipelines_tests.scenes.api_imports import count, done, landed, users
from bulk_pipelines_tests.scenes.api_items import job_of, products, shop
from bulk_pipelines_tests.scenes.today import SEED

REQUESTS = 50
OPTIONS = {"/v1/imports": {"resource": "users"}, "/api/jobs": {"recipe": "products"}, "/v1/exports": {}}
CONTENT = {
    "/v1/imports": users(*range(20_000)),
    "/api/jobs": products(*[f"lamp {number}" for number in range(20_000)]).encode(),
    "/v1/exports": json.dumps({"resource": "users", "where": ["role=reader"], "format": "parquet"}).encode(),
}


@pytest.mark.long
@pytest.mark.parametrize("path", list(OPTIONS))
def test_fifty_equal_requests_make_one_job_though_a_process_is_killed(
    engine: Engine, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("BULK_HOME", str(home))
    api = Api(engine, Settings(home=home), "")
    shop(api)
    text = api.text("ada")
    kind = "application/json" if path == "/v1/exports" else "text/csv"
    headers = {**bearer(text), "Idempotency-Key": "race", "Content-Type": kind}
    chance = random.Random(SEED)

    def ask(url: str) -> tuple[int, str | None]:
        try:
            answer = httpx.post(
                f"{url}{path}", params=OPTIONS[path], content=CONTENT[path], headers=headers, timeout=60
            )
        except httpx.TransportError:
            return 0, None
        told = answer.json()
        return answer.status_code, told.get("job_id", told.get("jobId"))

    with process(database_url, home) as (first, one), process(database_url, home) as (_, other):
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
    if path == "/v1/exports":
        assert completed(engine, str(last[1])).status == "COMPLETED"
        return
    clearing.clear_all(engine)
    assert landed(api) == [f"{last[1]}/000001-sent"]
    if path == "/v1/imports":
        done(engine, str(last[1]))
        assert count(engine, "SELECT count(*) FROM users") == 20_000
    else:
        control.kick_off(engine, str(last[1]), 1)
        while job_of(api, str(last[1])).planned_at is None:
            control.kick_off(engine, str(last[1]), 1)
        assert count(engine, "SELECT count(*) FROM job_item") == 20_000
