"""What a person sees of a job that is worked: honest at eighty columns, and readable in a log."""

import io
from dataclasses import dataclass, replace

import pytest
from rich.console import Console

from bulk_pipelines.engine.jobs.jobs import Job
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.terminal import progress_bar
from bulk_pipelines.terminal.progress_bar import Gauge, Glance
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
    task = bar.add_task("", total=100, told="", rate=0.0, also="", state="")
    found = LARGE.gauge
    bar.update(task, completed=30.0, told=found.told, rate=LARGE.rate, also=found.also, state=LARGE.state)
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
        "10 s: running, 20%, 10 rows, 1 row/s, 0 errors",
        "25 s: running, 50%, 25 rows, 1 row/s, 0 errors",
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


def test_that_it_is_cancelled_is_said_at_once_in_a_log_too() -> None:
    output, clock = io.StringIO(), iter((0.0, 1.0, 2.0, 2.2, 10.5))
    show = progress_bar.lines(output, lambda: next(clock))
    for state in ("running", "cancelling", "cancelling", "cancelled"):
        show(Glance(state, Gauge(5, "", 5, None, what="item"), 2.0))
    assert output.getvalue().splitlines() == ["cancelling…", "10 s: cancelled, 5 items, 2 items/s"]


def test_the_rate_is_that_of_the_summary() -> None:
    """Rows count from when they began to come, and not from when somebody began to watch."""
    assert progress_bar.rate(Gauge(1_000, "", 0, None, seconds=4.0), 1.0) == 250.0
    assert progress_bar.rate(Gauge(1_000, "", 0, None), 2.0) == 500.0
    assert progress_bar.rate(Gauge(0, "", 0, None), 0.0) == 0.0


def test_what_is_shown_of_a_job_of_items() -> None:
    job = replace(SOME_JOB, total_items=10, pending_items=2, running_items=1, retry_wait_items=0, dlq_items=3)
    assert progress_bar.gauge_of_items(Seen(job)) == Gauge(7, "3 failed", 7, 10, what="item")
    assert progress_bar.gauge_of_items(Seen(replace(job, planned_at=None))).total is None


def test_work_of_this_process_is_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "LINE_SECONDS", 0.0)
    with progress_bar.counted("row taken back", 31, more="rows taken back", quiet=False) as add:
        add(1)
        add(30)
    with progress_bar.steps(quiet=False) as begin:
        begin(name="items", number=1, of=12, removed=10, total=40)
        begin(name="files", number=2, of=12, removed=0, total=None)
    with progress_bar.counted("row", 1, quiet=True) as add:
        add(1)
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert [line.split(",")[:3] for line in lines[:2]] == [
        ["0 s: working", " 3%", " 1 row taken back"],
        ["0 s: working", " 100%", " 31 rows taken back"],
    ]
    assert lines[2].startswith("0 s: working, 25%, 10 gone, ")
    assert lines[2].endswith(", part 1 of 12: items")
    assert lines[3].startswith("0 s: working, 0 gone, ")
    assert lines[3].endswith(", part 2 of 12: files")
    assert len(lines) == 4
