"""Handlers that answer what nobody can use: only their own items suffer for it."""

import random

import pytest

from bulk_pipelines.errors import ErrorClass
from bulk_pipelines_tests.chaos.engine.crew import Crew
from bulk_pipelines_tests.chaos.engine.scene import Scene, items, keys

ANSWERS = {
    "an object": "result: cannot be written as JSON",
    "a NUL": "result: contains a NUL character",
    "not a number": "result: is not JSON",
    "too much": "result: is larger than",
    "half a character": "normalized: contains half a surrogate pair",
    "no outcome": "returned dict",
    "nothing": "returned NoneType",
}


@pytest.mark.parametrize("kind", ["nonsense", "nonsense_side_by_side"])
def test_answers_that_cannot_be_written_are_buried_and_say_so(kind: str, scene: Scene, chance: random.Random) -> None:
    work = items(60) + [(answer, {"answers": answer}) for answer in ANSWERS]
    chance.shuffle(work)
    job = scene.job(kind, work)
    with Crew(scene.url, job, scene.folder) as crew:
        crew.hire()
        scene.finish(crew, job)
        assert crew.replaced == 0
    rows = scene.check(job, keys(work), buried=ANSWERS)
    for answer, reason in ANSWERS.items():
        assert rows[answer].error_class == ErrorClass.PERMANENT
        assert reason in str(rows[answer].error_message)
    assert {row.attempt_count for row in rows.values()} == {1}


def test_a_handler_that_ends_its_process_costs_its_item_an_attempt_each_time(scene: Scene) -> None:
    work = [*items(30), ("exit", {"answers": "an exit"})]
    job = scene.job("nonsense", work)
    with Crew(scene.url, job, scene.folder) as crew:
        crew.hire()
        scene.finish(crew, job)
        assert crew.replaced == 5
    rows = scene.check(job, keys(work), buried=["exit"])
    assert "its worker was stopped in the middle (given up after 5 attempts)" in str(rows["exit"].error_message)
    assert {row.death_count for row in rows.values()} == {0}
