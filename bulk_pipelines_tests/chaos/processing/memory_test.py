"""A million rows, with a recipe that needs no provider, take no more memory than a few thousand."""

import os
import threading
from pathlib import Path
from typing import Any, Self

import psutil
import pytest
from sqlalchemy import Engine

from bulk_pipelines_tests.scenes.processing import Scene

ROWS = 1_000_000
MOST_MORE = 150
"""How many megabytes the process may grow by, after the first tenth."""
RECIPE = """
[recipe.companies]
type = "match"
variants = [{{ name = "name", query = "{{company}}" }}]
columns = [{{ header = "Company", input = "company" }}, {{ header = "Id", evidence = "id" }}]
reference = {{ file = "{file}", id = "id", names = ["name"] }}
"""


class Watching:
    """How much memory this process has, looked at now and then."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        process = psutil.Process(os.getpid())
        while not self.over.wait(0.5):
            self.seen.append(process.memory_info().rss / 1e6)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    @property
    def growth(self) -> float:
        first = max(self.seen[: max(len(self.seen) // 10, 1)])
        return max(self.seen) - first


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_a_million_rows_take_no_more_memory_than_a_few(engine: Engine, tmp_path: Path, monkeypatch: Any) -> None:
    scene = Scene(engine, tmp_path, monkeypatch)
    register = scene.file("id,name\n" + "".join(f"{n},Company Number {n}\n" for n in range(1_000)), "register.csv")
    scene.declare(RECIPE.format(file=register))
    source = tmp_path / "rows.csv"
    with source.open("w") as file:
        file.write("company\n")
        for number in range(ROWS):
            file.write(f"company number {number % 2_000}\n")
    with Watching() as intake:
        job = scene.planned("companies", source=str(source))
    assert job.total_items == ROWS
    with Watching() as work:
        job = scene.worked(job)
    assert job.finished
    assert job.succeeded_items + job.not_found_items == ROWS
    assert intake.growth < MOST_MORE
    assert work.growth < MOST_MORE
