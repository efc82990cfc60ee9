"""What is said of any job, whatever its kind: what was asked, how it stands, and what a person may do next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bulk_pipelines.engine.states import JobState
from bulk_pipelines.output import table
from bulk_pipelines.storage import addresses

if TYPE_CHECKING:
    from bulk_pipelines.engine.jobs.jobs import Job
    from bulk_pipelines.engine.jobs.listing import Run


@dataclass(frozen=True)
class JobLine:
    """A job in a list."""

    job: str
    kind: str
    state: JobState
    owner: str
    origin: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    total_items: int
    open_items: int
    dlq_items: int
    last_error: str | None


@dataclass(frozen=True)
class RunLine:
    """A run that took a job up, and its page in Dagster's UI."""

    run: str
    taken_up_at: datetime
    terminated_at: datetime | None
    url: str


@dataclass(frozen=True)
class JobShown:
    """Everything about a job."""

    job: JobLine
    request: Mapping[str, Any]
    """What was asked for, without passwords."""
    items: Mapping[str, int]
    """How many items are in each state."""
    attempts: int
    heartbeat_at: datetime | None
    idempotency_key: str | None
    request_id: str | None
    trace_parent: str | None
    result: Mapping[str, Any] | None
    runs: Sequence[RunLine]
    next: Sequence[str]
    """What a person may do next: commands, each with what it does."""


def line_of(job: "Job") -> JobLine:
    return JobLine(
        job.job_key,
        job.kind,
        job.status,
        job.owner,
        job.origin,
        job.created_at,
        job.started_at,
        job.finished_at,
        job.total_items,
        job.open_items,
        job.dlq_items,
        job.last_error,
    )


def shown_of(job: "Job", runs: "Sequence[Run]", ui: str) -> JobShown:
    states = ("pending", "running", "retry_wait", "succeeded", "not_found", "skipped", "dlq", "cancelled")
    return JobShown(
        line_of(job),
        without_secrets(job.params),
        {state: getattr(job, f"{state}_items") for state in states},
        job.attempts,
        job.heartbeat_at,
        job.idempotency_key,
        job.request_id,
        job.trace_parent,
        job.result,
        [RunLine(each.dagster_run_id, each.taken_up_at, each.terminated_at, run_url(ui, each)) for each in runs],
        next_steps(job),
    )


def run_url(ui: str, run: "Run") -> str:
    return f"{ui}/runs/{run.dagster_run_id}"


def without_secrets(value: Any) -> Any:
    """Return the value with every address in it as it may be shown."""
    if isinstance(value, Mapping):
        return {name: without_secrets(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(each) for each in value]
    return addresses.redacted(value) if isinstance(value, str) else value


def next_steps(job: "Job") -> list[str]:
    """Return the commands that help with a job in this state."""
    key = job.job_key
    if job.status is JobState.SUBMITTED:
        return ["bulk up runs the relay, which launches it"]
    if job.status is JobState.RUNNING:
        return [f"bulk job show {key} --watch follows it", f"bulk pause {key}", f"bulk cancel {key}"]
    if job.status is JobState.PAUSED:
        return [f"bulk resume {key} goes on with it", f"bulk cancel {key}"]
    steps = []
    if job.dlq_items:
        steps += [f"bulk dlq list --job {key} says what was given up", f"bulk dlq redrive --job {key} tries it again"]
    if job.kind.startswith("import_") and (job.result or {}).get("rejected"):
        steps.append(f"bulk import errors {key} shows the rejected records")
    if "recipe" in job.params:
        steps.append(f"bulk grid {key} writes its results")
    return steps


def list_text(lines: Sequence[JobLine]) -> str:
    if not lines:
        return "no jobs"
    header = ("job", "kind", "state", "owner", "origin", "submitted", "items", "open", "DLQ")
    rows = [
        (
            *(each.job, each.kind, str(each.state), each.owner, each.origin, when(each.created_at)),
            *(each.total_items, each.open_items, each.dlq_items),
        )
        for each in lines
    ]
    return "\n".join(table(header, rows))


def shown_text(shown: JobShown) -> str:
    line = shown.job
    facts = {
        "kind": line.kind,
        "state": line.state,
        "owner": f"{line.owner}, by {line.origin}",
        "submitted": when(line.created_at),
        "began": when(line.started_at),
        "ended": when(line.finished_at),
        "took": took(line),
        "items": ", ".join(f"{count:,} {state}" for state, count in shown.items.items() if count) or "none",
        "error": line.last_error,
        "idempotency key": shown.idempotency_key,
        "request id": shown.request_id,
        **{f"asked: {name}": value for name, value in shown.request.items() if value not in (None, [], {}, False)},
        **{
            f"result: {name}": value
            for name, value in (shown.result or {}).items()
            if not isinstance(value, list | dict)
        },
        **{
            f"result: {name}": counted(value)
            for name, value in (shown.result or {}).items()
            if isinstance(value, Mapping)
        },
    }
    facts = {name: value for name, value in facts.items() if value not in (None, "")}
    width = max(len(name) for name in facts)
    lines = [line.job, *(f"  {name.ljust(width)}  {value}" for name, value in facts.items())]
    lines += [f"  {'run'.ljust(width)}  {each.url}  ({when(each.taken_up_at)})" for each in shown.runs]
    return "\n".join([*lines, *(f"-> {step}" for step in shown.next)])


def counted(value: Mapping[str, Any]) -> str:
    """Return the numbers of a table of counts, which may have tables within, as one line."""
    return ", ".join(f"{name}: {count:,}" for name, count in flat(value))


def flat(value: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield from ((f"{name} {inner}", count) for inner, count in flat(each))
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield name, each


def when(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def took(line: JobLine) -> str | None:
    if line.started_at is None or line.finished_at is None:
        return None
    return f"{(line.finished_at - line.started_at).total_seconds():,.1f} s"
