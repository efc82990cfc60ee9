"""What a person sees of a job that is worked: honest at eighty columns, and readable in a log."""

import io
from dataclasses import dataclass, replace

import pytest
from rich.console import Console

from bulk_pipelines.engine.jobs import progress_bar
from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.jobs.progress_bar import Gauge, Glance
from bulk_pipelines.engine.states import JobState
from bulk_pipelines_tests.scenes.some_job import SOME_JOB


@dataclass(frozen=True)
class Seen:
    job: Job


LARGE = Glance("cancelling", Gauge(123_456_789, "1,234,567 errors", 30.0, 100.0), 1_234_567.0)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_times_are_never_cut(width: int) -> None:
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    bar = progress_bar.bar(console)
    task = bar.add_task("", total=100, rows=0, rate=0.0, also="", state="", what="rows")
    found = LARGE.gauge
    bar.update(task, completed=30.0, rows=found.rows, rate=LARGE.rate, also=found.also, state=LARGE.state)
    console.print(bar.get_renderable())
    line = output.getvalue().rstrip("\n")
    assert "\n" not in line
    assert len(line) <= width
    assert "0:00:00" in line
    assert "-:--:--" in line, "nobody knows what is left"
    assert "cancelling" in line
    if width > 80:
        assert "123,456,789 rows" in line


def test_a_log_has_a_line_every_ten_seconds() -> None:
    output, now = io.StringIO(), 0.0
    show = progress_bar.lines(output, lambda: now)
    for now in (0.0, 5.0, 9.9, 10.0, 12.0, 19.9, 25.0):
        show(Glance("running", Gauge(int(now), "0 errors", now, 50.0), 1.0))
    assert output.getvalue().splitlines() == [
        "10 s: running, 20%, 10 rows, 1 rows/s, 0 errors",
        "25 s: running, 50%, 25 rows, 1 rows/s, 0 errors",
    ]


def test_the_state_in_a_word() -> None:
    planned = replace(SOME_JOB, pending_items=1)
    over = replace(SOME_JOB, status=JobState.COMPLETED_WITH_ERRORS, finished_at=SOME_JOB.created_at)
    for job, cancelling, word in [
        (replace(SOME_JOB, status=JobState.SUBMITTED, planned_at=None), False, "submitted"),
        (replace(SOME_JOB, planned_at=None), False, "running"),
        (planned, False, "running"),
        (replace(planned, pending_items=0), False, "finishing"),
        (planned, True, "cancelling"),
        (over, True, "completed with errors"),
    ]:
        assert progress_bar.state_of(Seen(job), cancelling) == word
