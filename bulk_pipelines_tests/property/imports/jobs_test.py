"""What an import comes to as a job, told by the model: with ranges that are buried and redriven, with limits on errors,
and with a cancel or a pause at any step of its end."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.errors import WrongState
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.imports import winding_up
from bulk_pipelines.imports.plan import planning
from bulk_pipelines.imports.reconcile import first_wins, last_wins
from bulk_pipelines_tests.scenes.import_jobs import Imports, imports_of
from bulk_pipelines_tests.scenes.import_model import (
    EMAILS,
    IDS,
    Expected,
    existing,
    inserted,
    records,
    reset,
    table,
    upserted,
    written,
)
from bulk_pipelines_tests.scenes.listening import Heard, listening
from bulk_pipelines_tests.scenes.today import one_of

WAYS: dict[str, dict[str, Any]] = {
    "insert": {"mode": "insert"},
    "validate": {"validate_only": True},
    "upsert by id": {"mode": "upsert", "match_on": "id"},
    "upsert by email": {"mode": "upsert", "match_on": "email"},
}
STEPS = {
    "look for late rows": "CREATE TEMP TABLE late",
    "look for records to promote": "a.import_held = '{}'",
    "insert": "AND import_line = ANY (",
    "resolve": "OVER (PARTITION BY",
    "look for lines to merge": "AND import_missing = '{}' ORDER BY import_line",
    "merge": "MERGE INTO",
}
"""Words of the statements with which the steps of reconciling begin."""
LIMITS = ["continue", "continue", "abort", "2", "30%"]


@dataclass(frozen=True)
class Story:
    """What happens to an import besides being worked."""

    range_bytes: int
    at_once: int
    buried: list[str]
    on_error: str
    event: str | None
    step: int
    """The event comes before this step of reconciling."""


stories = st.builds(
    Story,
    range_bytes=st.integers(50, 600),
    at_once=st.integers(1, 5),
    buried=st.lists(st.sampled_from(EMAILS), max_size=2),
    on_error=st.sampled_from(LIMITS),
    event=st.sampled_from([None, None, "cancel", "pause"]),
    step=st.integers(1, 12),
)


def told(imports: Imports, way: str, found: list[Any], before: list[tuple[str, str]], story: Story) -> None:
    """One import from its beginning to its end, and what it must have come to at each end on the way."""
    imports.buried()
    reset(imports.engine, before)
    path = imports.folder / "users.csv"
    lines = written(path, found)
    match_on = WAYS[way].get("match_on")
    expected = upserted(lines, before, match_on) if match_on else inserted(lines, before)
    if way == "validate":
        expected.table = {key: (email, "before", None) for key, email in before}
    job = imports.planned(path.read_text(), on_error=story.on_error, **WAYS[way])
    imports.buried(*story.buried)
    ended = over(imports, way, job, before)
    check_ended(imports, way, ended, lines, before, expected)
    if ended.dlq_items and ended.status is not JobState.CANCELLED:
        ended = over(imports, way, imports.redrive(ended), before)
        assert ended.status is JobState.CANCELLED or not ended.dlq_items
        check_ended(imports, way, ended, lines, before, expected)


def over(imports: Imports, way: str, job: Job, before: list[tuple[str, str]]) -> Job:
    """Work the import to its end, also when it is paused on the way."""
    ended = imports.worked(job)
    while ended.status is JobState.PAUSED:
        assert way == "insert" or table(imports.engine) == untouched(before)
        with transaction(imports.engine) as connection:
            jobs.resume(connection, job.job_key)
        ended = imports.worked(imports.look(job))
    return ended


def untouched(before: list[tuple[str, str]]) -> dict[str, tuple[str, str, int | None]]:
    return {key: (email, "before", None) for key, email in before}


def check_ended(
    imports: Imports, way: str, ended: Job, lines: list[Any], before: list[tuple[str, str]], expected: Expected
) -> None:
    assert ended.finished
    winding_up.wind_up_all(imports.engine)
    ended = imports.look(ended)
    result, came = ended.result, table(imports.engine)
    assert result is not None
    rejects = imports.rejects(ended)
    loaded = sum(line is not None for _, _, line in came.values())
    keeps = bool(ended.dlq_items) and ended.status is not JobState.CANCELLED
    # Each record counts once, in every state.
    assert result["read"] + result["unprocessed"] == len(lines)
    parts = ("loaded", "rejected", "superseded", "valid", "waiting")
    assert result["read"] == sum(result[part] for part in parts)
    assert (result["loaded"], result["rejected"]) == (loaded, len(rejects))
    assert not result["waiting"] or keeps
    assert not imports.waiting() or keeps
    records_of_file = {line: ",".join((key, email, f"name {line}", role)) for line, key, email, role in lines}
    assert {line: raw for line, (raw, _) in rejects.items()}.items() <= records_of_file.items()
    aborted = "aborted" in (ended.last_error or "")
    if ended.status is JobState.CANCELLED or ended.dlq_items or aborted:
        if way != "insert":
            assert came == untouched(before)
        return
    if way.startswith("upsert") and not expected_loaded(expected):
        assert ended.status is JobState.FAILED
    assert came == expected.table
    assert {line: codes for line, (_, codes) in rejects.items()} == expected.codes
    assert result["superseded"] == expected.superseded
    assert result["valid"] == (expected.valid if way == "validate" else 0)
    assert not result["unprocessed"]


def expected_loaded(expected: Expected) -> int:
    return sum(line is not None for _, _, line in expected.table.values())


def meddling(story: Story, happen: Callable[[], None]) -> Heard:
    """Count the steps of reconciling, and let the event happen before the one that is told."""
    count = 0

    def heard(statement: str) -> None:
        nonlocal count
        if any(words in statement for words in STEPS.values()):
            count += 1
            if count == story.step:
                with suppress(WrongState):  # it may be over, and just be wound up
                    happen()

    return heard


def happen(engine: Engine, event: str | None) -> None:
    """Cancel or pause the import that was submitted last."""
    if event is None:
        return
    with transaction(engine) as connection:
        ((job_key,),) = connection.execute("SELECT job_key FROM job ORDER BY job_id DESC LIMIT 1").fetchall()
    if event == "cancel":
        jobs.cancel(engine, job_key)
    else:
        with transaction(engine) as connection:
            jobs.pause(connection, job_key)


def examine(engine: Engine, folder: Path, way: str, found: list[Any], before: Any, story: Story) -> None:
    with (
        pytest.MonkeyPatch.context() as patched,
        listening(engine, meddling(story, lambda: happen(engine, story.event))) as pool,
    ):
        patched.setenv("BULK_HOME", str(folder / "home"))
        patched.setattr(planning, "RANGE_BYTES", story.range_bytes)
        for module in (first_wins, last_wins):
            patched.setattr(module, "AT_ONCE", story.at_once)
        told(Imports(pool, folder), way, found, before, story)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=records.filter(bool), before=existing, story=stories)
def test_an_import_ends_as_the_model_says(
    imports: Imports, way: str, found: list[tuple[str, str, str]], before: list[tuple[str, str]], story: Story
) -> None:
    examine(imports.engine, imports.folder, way, found, before, story)


@pytest.mark.long
@pytest.mark.parametrize("way", one_of(WAYS))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=records.filter(bool), before=existing, story=stories)
def test_many_imports_end_as_the_model_says(
    imports: Imports, way: str, found: list[tuple[str, str, str]], before: list[tuple[str, str]], story: Story
) -> None:
    examine(imports.engine, imports.folder, way, found, before, story)


def test_every_step_is_heard(imports: Imports) -> None:
    """Each step must be heard, or its event would never come before it."""
    statements: list[str] = []
    found = [(IDS[0], EMAILS[0], "reader"), (IDS[1], EMAILS[1], "reader")] * 2 + [(IDS[0], EMAILS[2], "reader")] * 3
    quiet = Story(range_bytes=60, at_once=2, buried=[EMAILS[0]], on_error="continue", event=None, step=1)
    for way in WAYS:
        with listening(imports.engine, statements.append) as pool:
            told(Imports(pool, imports.folder), way, found, [], quiet)
    assert [step for step, words in STEPS.items() if not any(words in each for each in statements)] == []


@pytest.fixture
def imports(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    return imports_of(engine, tmp_path, monkeypatch)
