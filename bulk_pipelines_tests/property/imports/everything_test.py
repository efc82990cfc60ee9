"""Whole imports to which everything happens, one thing after the other, on tables that refuse rows."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.redrive import redrive
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.property.imports import slow_import
from bulk_pipelines_tests.property.imports.drawn_imports import (
    Drawn,
    compare,
    compare_cut_short,
    good_imports,
    is_accepted,
    limits,
    prepare,
    sizes,
    steps,
    submitted,
)
from bulk_pipelines_tests.property.imports.refusing_tables import WAYS, make_refuse, refused_of
from bulk_pipelines_tests.scenes.oracle import (
    Sizes,
    disturbed_process,
    ended,
    hasty,
    killed_process,
    process,
    refreshed,
    small,
)
from bulk_pipelines_tests.scenes.today import one_of

Event = tuple[str, int, set[int]]
"""What happens, at which transaction, and which records cannot be written then."""

happenings = st.lists(
    st.tuples(st.sampled_from(["kill", "pause", "bury"]), steps, st.sets(st.integers(0, 20), min_size=1, max_size=2)),
    min_size=1,
    max_size=4,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))


def happen(engine: Engine, job: Job, size: Sizes, lines: list[int], event: Event) -> None:
    kind, at, numbers = event

    def pause() -> None:
        with transaction(engine) as connection:
            jobs.pause(connection, job.job_key)

    match kind:
        case "kill":
            killed_process(engine, job, size, hasty(10, size.rows), at)
        case "pause":
            disturbed_process(engine, job, size, hasty(10, size.rows), at, pause)
            if refreshed(engine, job).status is JobState.PAUSED:
                with transaction(engine) as connection:
                    jobs.resume(connection, job.job_key)
        case "bury":
            buried = [lines[number % len(lines)] for number in numbers if lines]
            killed_process(engine, job, size, hasty(1, size.rows, not_loaded=buried), 3 * at)
            if ended(engine, job).dlq_items:
                redrive(engine, job.job_key)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", one_of(WAYS))
def test_everything_at_once(engine: Engine, tmp_path: Path, way: str) -> None:
    make_refuse(engine, way)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(drawn=good_imports, limit=st.one_of(st.just("continue"), limits), size=sizes, events=happenings)
    def check(drawn: Drawn, limit: str, size: Sizes, events: list[Event]) -> None:
        limited, refused = replace(drawn, on_error=limit), refused_of(drawn.name)
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, limited)
        lines = [each.line for each in slow_import.candidates(drawn.asked())]
        with small(size):
            for event in events:
                if refreshed(engine, job).status is JobState.RUNNING:
                    happen(engine, job, size, lines, event)
            process(engine, engine, job, size, hasty(10, size.rows))
        if limit == "continue" or is_accepted(limited, refused):
            compare(engine, limited, job, refused)
        else:
            compare_cut_short(engine, limited, job)

    check()
