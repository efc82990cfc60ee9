"""What a job has asked of providers is counted with its rows: by status, with the time that it had to wait."""

import json
from collections import Counter
from typing import Any

import pytest
from click.testing import CliRunner

from bulk_pipelines.cli import main
from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.processing import control
from bulk_pipelines.processing.control import Chosen
from bulk_pipelines.processing.providers import requests_made
from bulk_pipelines.processing.providers.requests_made import RequestsMade
from bulk_pipelines_tests.scenes.processing import Scene, items
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said


def made(scene: Scene, job: Job) -> dict[str, RequestsMade]:
    """Return the job's requests to the shop, by their status."""
    with transaction(scene.pool) as connection:
        found = requests_made.of_job(connection, job.job_id)
    assert {each.provider for each in found} <= {"shop"}
    return {each.status: each for each in found}


def test_requests_are_counted_by_status_over_all_tries(
    scene: Scene, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULK_DATABASE_URL", database_url)
    answered: list[int] = []

    def shop(call: Call) -> Any:
        word = call.params["q"].split()[0]
        status = {"gone": 404, "wrong": 400, "down": 500, "busy": 429}.get(word, 200)
        status = 200 if status == 429 and status in answered else status
        answered.append(status)
        return items((word, 0.9, "1")) if status == 200 else Said({}, status, {"Retry-After": "1"})

    with ProviderServer(shop) as server:
        scene.shop(server.url, "break_after = 0\nat_once = 1", "attempts = 2\nnot_found_attempts = 1\nat_once = 1")
        job = scene.done(source=scene.products("lamp", "lamp", "busy", "gone", "wrong", "down"))
    found = made(scene, job)
    assert {status: each.requests for status, each in found.items()} == Counter(map(str, answered))
    assert found["429"].throttled_seconds == pytest.approx(1, abs=0.2), "as long as everybody was to wait"
    assert found["200"].throttled_seconds == 0
    assert job.result is not None
    assert job.result["requests"] == {"shop": Counter(map(str, answered))}
    throttled = sum(each.throttled_seconds for each in found.values())
    assert job.result["throttled_seconds"] == pytest.approx(throttled, 0.01)
    told = CliRunner().invoke(main, ["job", "show", job.job_key])
    assert f"shop 200: {answered.count(200)}" in told.output, told.output
    assert "throttled_seconds" in told.output
    assert "failed: 2, matched: 3, no match: 1" in told.output
    told = CliRunner().invoke(main, ["job", "show", job.job_key, "--json"])
    assert json.loads(told.output)["result"]["requests"]["shop"]["404"] == answered.count(404)


def test_what_was_put_off_was_never_sent(scene: Scene) -> None:
    with ProviderServer(lambda _: items(("x", 0.9, "1"))) as server:
        scene.shop(server.url, "per_day = 1\npatience = 0.1\nat_once = 1", "at_once = 1")
        job = scene.planned(source=scene.products("lamp", "chair"))
        control.kick_off(scene.pool, job.job_key, 1)
        assert len(server.calls) == 1
    found = made(scene, job)
    assert found["200"].requests == 1
    assert found["put off"].requests >= 1
    with transaction(scene.pool) as connection:
        counts = requests_made.by_provider(requests_made.of_job(connection, job.job_id))
    assert counts["shop"]["200"] == 1


def test_a_provider_that_is_away_gives_no_answer(scene: Scene) -> None:
    scene.shop("http://127.0.0.1:9/", "break_after = 0", "attempts = 2")
    job = scene.done(source=scene.products("lamp"))
    assert {status: each.requests for status, each in made(scene, job).items()} == {"no answer": 2}


def test_rows_that_a_provider_refuses_do_not_stop_the_others(scene: Scene) -> None:
    """A refusal is an answer: the circuit breaker counts what is the provider's own fault."""

    def shop(call: Call) -> Any:
        return Said({}, 400) if call.params["q"].startswith("bad") else items(("x", 0.9, "1"))

    with ProviderServer(shop) as server:
        scene.shop(server.url, "break_after = 3\nbreak_seconds = 60\npatience = 0.1\nat_once = 1", "at_once = 1")
        job = scene.planned(source=scene.products(*[f"bad{number}" for number in range(8)], "lamp"))
        kicked = control.kick_off(scene.pool, job.job_key, 20)
    assert kicked.job.status is JobState.FAILED, kicked.ended
    assert (kicked.job.dlq_items, kicked.job.succeeded_items) == (8, 1)


def test_a_redrive_adds_to_the_counts(scene: Scene) -> None:
    good = [False]
    with ProviderServer(lambda _: items(("x", 0.9, "1")) if good[0] else Said({}, 400)) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.products("lamp"))
        good[0] = True
        control.reprocess(scene.pool, job.job_key, Chosen.parse())
        job = scene.worked(job)
        assert job.result is not None
        assert job.result["requests"] == {"shop": {"200": 1, "400": len(server.calls) - 1}}
