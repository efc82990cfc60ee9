"""Providers that are down, throttle, refuse or answer nonsense: which rows wait, which fail, and why."""

import threading
from typing import Any

import pytest

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.worker import drain
from bulk_pipelines.engine.worker.runner import Worker
from bulk_pipelines.processing.kind import KINDS
from bulk_pipelines_tests.scenes.engine_jobs import check_counters, make_due
from bulk_pipelines_tests.scenes.processing import Scene, by_word, items
from bulk_pipelines_tests.servers.provider_server import Call, ProviderServer, Said


def test_another_provider_answers_when_the_first_is_down(scene: Scene) -> None:
    with ProviderServer(by_word) as good, ProviderServer(lambda _: Said({}, 500)) as bad:
        scene.shop(bad.url)
        text = (scene.recipes / "shop.toml").read_text()
        second = text[text.index("[[recipe.products.asks]]") :].replace('"shop"', '"other"')
        provider = f'\n[provider.other]\naddress = "{good.url}"\nprivate = true\n'
        scene.declare(text + second + provider)
        job = scene.done(source=scene.products("lamp"))
        assert len(bad.calls) == 1, "a provider in trouble is not asked by the other variants"
    (row,) = scene.rows(job)
    assert row.result is not None
    assert row.result["evidence"]["provider"] == "other"
    assert "shop" in row.result["evidence"]["faults"][0]


def test_a_provider_that_throttles_is_left_alone_by_everybody(scene: Scene) -> None:
    throttling = threading.Event()
    throttling.set()

    def sometimes(_: Call) -> Any:
        return Said({}, 429, {"Retry-After": "120"}) if throttling.is_set() else items(("x", 0.9, "1"))

    with ProviderServer(sometimes) as server:
        scene.shop(server.url, "at_once = 1\npatience = 0.1")
        job = scene.planned(source=scene.products("lamp", "chair", "table"))
        from bulk_pipelines.processing import control

        kicked = control.kick_off(scene.pool, job.job_key, 2)
        assert len(server.calls) == 1
        assert kicked.job.retry_wait_items == 3
        assert {row["Outcome"] for row in scene.grid(job)} == {"throttled"}
        assert {row.error_class for row in scene.rows(job)} == {"throttled"}
        throttling.clear()
        job = scene.worked(job)
    assert {row["Outcome"] for row in scene.grid(job)} == {"matched"}


def test_a_row_that_was_never_asked_for_is_never_given_up(scene: Scene) -> None:
    """The provider allows one request a day, and all other rows wait for their turn, as often as they are claimed."""
    with ProviderServer(by_word) as server:
        scene.shop(server.url, "per_day = 1\npatience = 0\nat_once = 1", "attempts = 2")
        job = scene.planned(source=scene.products("lamp", "twins", "weak"))
        for _ in range(4):
            with Worker(scene.pool, KINDS, scene.job(job.job_key), random=lambda: 0.0) as worker:
                drain.drain(worker, patient=False)
            make_due(scene.pool, job)
        assert len(server.calls) == 1
        assert sorted((row.status, row.attempt_count) for row in scene.rows(job)) == [
            ("RETRY_WAIT", 0),
            ("RETRY_WAIT", 0),
            ("SUCCEEDED", 1),
        ]
        assert scene.outcomes(job).count("throttled") == 2
        check_counters(scene.pool, job)
        with transaction(scene.pool) as connection:
            connection.execute("DELETE FROM rate_limit")
        scene.shop(server.url, "", "attempts = 2")
        job = scene.worked(job)
    assert sorted(scene.outcomes(job)) == ["ambiguous", "ambiguous", "matched"]


def test_a_refusal_of_the_provider_itself_counts(scene: Scene) -> None:
    with ProviderServer(lambda _: Said({}, 429, {"Retry-After": "0"})) as server:
        scene.shop(server.url, recipe="attempts = 2")
        job = scene.done(source=scene.products("lamp"))
    assert [(row.status, row.attempt_count) for row in scene.rows(job)] == [("DLQ", 2)]


def test_an_answer_that_cannot_be_read_is_not_kept(scene: Scene) -> None:
    """The provider is asked again when it is well."""
    scores: list[Any] = ["high", 0.97]

    def moody(_: Call) -> Any:
        return items(("lamp-1", scores[0], "9.90"))

    with ProviderServer(moody) as server:
        scene.shop(server.url, recipe="attempts = 1")
        job = scene.done(source=scene.products("lamp"))
        assert "no number" in scene.grid(job)[0]["Why"]
        del scores[0]
        job = scene.done(source=scene.products("lamp"))
    assert scene.outcomes(job) == ["matched"]


def test_what_cannot_be_read_is_a_row_that_failed(scene: Scene) -> None:
    with ProviderServer(by_word) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.file(b"title,brand\nlamp,Acme\nlamp\nl\x81amp,Acme\n"))
    assert scene.outcomes(job) == ["matched", "failed", "failed"]
    why = [row["Why"] for row in scene.grid(job)]
    assert "1 field instead of 2" in why[1]
    assert "half a surrogate" in why[2]


@pytest.mark.parametrize("status", [301, 401, 403])
def test_what_no_retry_can_mend_fails_at_once(scene: Scene, status: int) -> None:
    with ProviderServer(lambda _: Said({}, status, {"Location": "http://127.0.0.1:9/"})) as server:
        scene.shop(server.url)
        job = scene.done(source=scene.products("lamp"))
    (row,) = scene.rows(job)
    assert row.status == "DLQ"
    assert str(status) in (row.error_message or "")
    assert row.attempt_count == 1
