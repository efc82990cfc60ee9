"""Whole imports come to what a slow and obvious one comes to, whatever happens to them on their way."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bulk_pipelines.database.pool import transaction
from bulk_pipelines.engine.jobs import jobs
from bulk_pipelines.engine.jobs.redrive import redrive
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines_tests.property.imports import slow_import
from bulk_pipelines_tests.property.imports.drawn_imports import (
    Drawn,
    can_be_read,
    compare,
    compare_cut_short,
    good_imports,
    imports,
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
    hasty,
    killed_process,
    process,
    refreshed,
    small,
)
from bulk_pipelines_tests.scenes.today import one_of


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BULK_HOME", str(tmp_path / "home"))


@pytest.fixture(params=[5, pytest.param(40, marks=pytest.mark.long)])
def examples(request: pytest.FixtureRequest) -> settings:
    """How many imports are tried."""
    return settings(max_examples=request.param, deadline=None, suppress_health_check=list(HealthCheck))


def test_undisturbed(engine: Engine, tmp_path: Path, examples: settings) -> None:
    @examples
    @given(drawn=imports(), size=sizes)
    def check(drawn: Drawn, size: Sizes) -> None:
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, drawn)
        with small(size):
            if not can_be_read(drawn):
                with pytest.raises(InvalidInput):
                    process(engine, engine, job, size, hasty(3, size.rows))
                return
            process(engine, engine, job, size, hasty(3, size.rows))
        compare(engine, drawn, job)

    check()


def test_killed_at_any_transaction(engine: Engine, tmp_path: Path, examples: settings) -> None:
    @examples
    @given(drawn=good_imports, size=sizes, kills=st.lists(steps, min_size=1, max_size=3))
    def check(drawn: Drawn, size: Sizes, kills: list[int]) -> None:
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, drawn)
        with small(size):
            for at in kills:
                killed_process(engine, job, size, hasty(10, size.rows), at)
            process(engine, engine, job, size, hasty(10, size.rows))
        compare(engine, drawn, job)

    check()


def test_paused_and_resumed_at_any_transaction(engine: Engine, tmp_path: Path, examples: settings) -> None:
    @examples
    @given(drawn=good_imports, size=sizes, at=steps)
    def check(drawn: Drawn, size: Sizes, at: int) -> None:
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, drawn)

        def pause() -> None:
            with transaction(engine) as connection:
                jobs.pause(connection, job.job_key)

        with small(size):
            disturbed_process(engine, job, size, hasty(3, size.rows), at, pause)
            if refreshed(engine, job).status is JobState.PAUSED:
                with transaction(engine) as connection:
                    jobs.resume(connection, job.job_key)
                process(engine, engine, job, size, hasty(3, size.rows))
        compare(engine, drawn, job)

    check()


def test_cancelled_at_any_transaction(engine: Engine, tmp_path: Path, examples: settings) -> None:
    @examples
    @given(drawn=good_imports, size=sizes, at=steps)
    def check(drawn: Drawn, size: Sizes, at: int) -> None:
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, drawn)
        with small(size):
            disturbed_process(engine, job, size, hasty(3, size.rows), at, lambda: jobs.cancel(engine, job.job_key))
            if refreshed(engine, job).status is JobState.CANCELLED:
                compare_cut_short(engine, drawn, job)
            else:
                compare(engine, drawn, job)

    check()


def test_with_buried_ranges_that_are_redriven(engine: Engine, tmp_path: Path, examples: settings) -> None:
    @examples
    @given(drawn=good_imports, size=sizes, numbers=st.sets(st.integers(0, 20), min_size=1, max_size=2))
    def check(drawn: Drawn, size: Sizes, numbers: set[int]) -> None:
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, drawn)
        lines = [each.line for each in slow_import.candidates(drawn.asked())]
        with small(size):
            buried = [lines[number % len(lines)] for number in numbers if lines]
            process(engine, engine, job, size, hasty(1, size.rows, not_loaded=buried))
            if refreshed(engine, job).dlq_items:
                redrive(engine, job.job_key)
                process(engine, engine, job, size, hasty(1, size.rows))
        compare(engine, drawn, job)

    check()


@pytest.mark.parametrize("way", one_of(WAYS))
def test_with_rows_that_the_table_refuses(engine: Engine, tmp_path: Path, examples: settings, way: str) -> None:
    make_refuse(engine, way)

    @examples
    @given(drawn=good_imports, size=sizes)
    def check(drawn: Drawn, size: Sizes) -> None:
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, drawn)
        with small(size):
            process(engine, engine, job, size, hasty(1, size.rows))
        compare(engine, drawn, job, refused_of(drawn.name))

    check()


@pytest.mark.parametrize("way", one_of(["check", "no answer", "raise at commit"]))
def test_with_a_limit_of_rejects(engine: Engine, tmp_path: Path, examples: settings, way: str) -> None:
    """Whatever breaks the limit, while the files are read, by comparing or because the table refuses records, and
    whoever dies meanwhile: an upsert that is aborted changes nothing."""
    make_refuse(engine, way)

    @examples
    @given(drawn=good_imports, limit=limits, size=sizes, kills=st.lists(steps, max_size=1))
    def check(drawn: Drawn, limit: str, size: Sizes, kills: list[int]) -> None:
        limited, refused = replace(drawn, on_error=limit), refused_of(drawn.name)
        prepare(engine, drawn.before)
        job = submitted(engine, tmp_path, limited)
        with small(size):
            for at in kills:
                killed_process(engine, job, size, hasty(10, size.rows), at)
            process(engine, engine, job, size, hasty(10, size.rows))
        if is_accepted(limited, refused):
            compare(engine, limited, job, refused)
        else:
            compare_cut_short(engine, limited, job)
            assert "aborted" in (refreshed(engine, job).last_error or "")

    check()
