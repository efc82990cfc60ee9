"""Decisions while the job runs: nothing is lost, doubled or miscounted."""

import threading
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from bulk_pipelines.engine.jobs.audit import Actor
from bulk_pipelines.errors import Conflict
from bulk_pipelines.processing.review import deciding
from bulk_pipelines_tests.scenes import engine_jobs
from bulk_pipelines_tests.scenes.processing import Scene

ADA = Actor("ada", "cli")
RECIPE = """
[recipe.companies]
type = "match"
variants = [{{ name = "name", query = "{{company}}" }}]
columns = [{{ header = "Company", input = "company" }}, {{ header = "Id", evidence = "id" }}]
reference = {{ file = "{file}", id = "id", names = ["name"] }}
one_to_one = true
"""
NAMES = ("Acme", "Nordic Timber", "Blue Coffee", "Lampen")


def test_decisions_while_the_job_runs_are_counted(engine: Engine, tmp_path: Path, monkeypatch: Any) -> None:
    scene = Scene(engine, tmp_path, monkeypatch)
    twice = "".join(f"{n}{end},{name}\n" for n, name in enumerate(NAMES) for end in "ab")
    scene.declare(RECIPE.format(file=scene.file("id,name\n" + twice, "register.csv")))
    rows = "".join(f"{NAMES[number % 4]}\n" for number in range(400))
    job = scene.planned("companies", source=scene.file("company\n" + rows))
    over = threading.Event()
    told: list[Exception] = []

    def review() -> None:
        """Decide about the same rows again and again, each time otherwise."""
        turn = 0
        while not over.is_set() or turn < 40:
            turn += 1
            key = f"{1 + turn % 40:09}"
            verdict, entry = (("accept", "0a"), ("none", None), ("reject", "1a"), ("open", None))[turn % 4]
            try:
                deciding.decide(scene.pool, job.job_key, key, verdict, entry, ADA)
            except Conflict:
                pass  # the row is being worked
            except Exception as error:  # noqa: BLE001 - the test fails with it
                told.append(error)
                return

    reviewer = threading.Thread(target=review)
    reviewer.start()
    job = scene.worked(job)
    over.set()
    reviewer.join(120)
    assert not reviewer.is_alive()
    assert not told, told
    deciding.apply(scene.pool, job.job_key, ADA)
    job = scene.worked(scene.job(job.job_key))
    engine_jobs.check_counters(scene.pool, job)
    assert job.result is not None
    counted = {name: count for name, count in job.result["outcomes"].items() if count}
    shown: dict[str, int] = {}
    for outcome, row in zip(scene.outcomes(job), scene.rows(job), strict=True):
        shown[outcome] = shown.get(outcome, 0) + 1
        assert row.status in ("SUCCEEDED", "NOT_FOUND")
    assert counted == shown, "the result of the job says what its rows say"
