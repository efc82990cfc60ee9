"""The commands about jobs of all kinds, and about rows that are looked up, on a server."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from bulk_pipelines import output
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.maintenance import commands as maintenance
from bulk_pipelines.maintenance import job_answers, job_commands
from bulk_pipelines.maintenance.job_answers import JobLine, JobShown
from bulk_pipelines.maintenance.shown import JobControlled
from bulk_pipelines.processing import commands as processing
from bulk_pipelines.processing import conditions
from bulk_pipelines.processing.shown import KickOffShown, ProcessShown, Reprocessed
from bulk_pipelines.remote.commands import COMMANDS, connected, group_of, over_http, told, written
from bulk_pipelines.remote.file_commands import FILES

if TYPE_CHECKING:
    from bulk_pipelines.client import Job

JOB: dict[str, click.Command] = {}


@over_http(maintenance.pause)
def pause(job_key: str) -> None:
    with connected() as client:
        show_state(client.jobs.pause(job_key))


@over_http(maintenance.resume)
def resume(job_key: str) -> None:
    with connected() as client:
        show_state(client.jobs.resume(job_key))


@over_http(maintenance.cancel)
def cancel(job_key: str) -> None:
    with connected() as client:
        show_state(client.jobs.cancel(job_key))


def show_state(job: "Job") -> None:
    output.show(JobControlled(job.job_id, job.status), f"job {job.job_id} is {job.status}")


@over_http(job_commands.jobs)
def jobs(
    kinds: tuple[str, ...],
    statuses: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    limit: int,
    owner: str | None,
    **others: Any,
) -> None:
    refused = [name for name, value in others.items() if value is not None]
    if refused or len(kinds) > 1:
        raise InvalidInput(
            f"--{refused[0] if refused else 'kind'}",
            "a server lists jobs only by one kind, by states, by times and by owner",
        )
    states = [each.upper() for each in statuses]
    with connected() as client:
        there = client.jobs.list(
            job_type=kinds[0] if kinds else None,
            since=job_commands.local(since),
            until=job_commands.local(until),
            owner=owner,
            size=100,
        )
        found = list(islice((each for each in there if not states or each.status in states), limit))
    lines = [line_of(each) for each in found]
    output.show(lines, job_answers.list_text(lines))


@over_http(job_commands.show, JOB)
def show(job_key: str, watch: bool) -> None:
    from bulk_pipelines.remote import watching

    with connected() as client:
        seen = client.jobs.get(job_key)
        if watch:
            with watching.screen() as screen:
                news = client.news(job_key)
                seen = screen.watch(seen, news, lambda: client.jobs.get(job_key), lambda: None, watching.gauge_of_job)
    shown = shown_of(seen)
    output.show(shown, job_answers.shown_text(shown))
    if watch:
        output.end(seen.good, with_errors=seen.status == "COMPLETED_WITH_ERRORS")


def line_of(job: "Job") -> JobLine:
    from bulk_pipelines.engine.states import JobState

    return JobLine(
        job.job_id,
        job.job_type,
        JobState(job.status),
        job.user_id,
        job.origin,
        job.created_at,
        job.started_at,
        job.finished_at,
        job.total_items,
        job.total_items - job.processed_items,
        job.failed_items,
        job.last_error,
    )


def shown_of(job: "Job") -> JobShown:
    """Return what the server tells of a job. It tells neither the whole request nor the runs."""
    items = {word.lower(): count for word, count in job.items.items()}
    asked = {} if job.recipe is None else {"recipe": job.recipe}
    return JobShown(
        line_of(job),
        asked,
        items,
        job.attempts,
        job.last_heartbeat,
        job.idempotency_key,
        job.request_id,
        trace_parent=None,
        result=None,
        runs=[],
        next=[],
    )


@over_http(processing.process)
def process(
    source: str | None,
    recipe: str,
    query: object,
    table: str | None,
    idempotency_key: str | None,
    submit_only: bool,
    **options: Any,
) -> None:
    from bulk_pipelines.remote import watching

    if source is None or query is not None or table is not None:
        raise InvalidInput("FILE", "a server takes a file, but no query and no table")
    given = told(options)
    with connected() as client, watching.screen() as screen:
        seen, made = client.jobs.submitted(
            source, recipe=recipe, idempotency_key=idempotency_key, on_sent=screen.sent, **given
        )
        key = seen.job_id
        said = f"job {key}" + ("" if made else ", submitted before")
        if submit_only:
            output.show(ProcessShown(key, not made, seen.status, {}, None), said)
            return
        output.note(said)
        look, cancel = partial(client.jobs.get, key), partial(client.jobs.cancel, key)
        seen = screen.watch(seen, client.news(key), look, cancel, watching.gauge_of_job)
    outcomes = {word.lower().replace("_", " "): count for word, count in seen.items.items() if count}
    parts = [f"{count:,} {word}" for word, count in outcomes.items()]
    lines = [f"{key} {seen.status}: {', '.join(parts) or 'no rows'}", *([seen.last_error] if seen.last_error else [])]
    output.show(ProcessShown(key, not made, seen.status, outcomes, seen.last_error), "\n".join(lines))
    output.end(seen.good, with_errors=seen.status == "COMPLETED_WITH_ERRORS")


@over_http(processing.grid)
def grid(job_key: str, kind: str, to: str, outcomes: Sequence[str], to_table: str | None, mode: str) -> None:
    for option, given in (("--outcome", outcomes), ("--to-table", to_table), ("--mode", mode != "upsert")):
        if given:
            raise InvalidInput(option, "is not for a server, which only writes the whole grid as a file")
    with connected() as client:
        written(client.jobs.export(job_key, kind), to)


@over_http(processing.reprocess)
def reprocess(  # noqa: PLR0913, PLR0917 - one for each option
    job_key: str,
    statuses: Sequence[str],
    items: Sequence[str],
    where: Sequence[str],
    error: str | None,
    error_class: str | None,
    variants: Sequence[str],
    keep_attempts: bool,
    dry_run: bool,
) -> None:
    chosen: dict[str, Any] = {
        "statuses": list(statuses) or None,
        "where": conditions.parsed(where) or None,
        "error": error,
        "errorClass": error_class,
        "variants": list(variants) or None,
        "resetAttempts": not keep_attempts,
        "dryRun": dry_run,
    }
    with connected() as client:
        if items:
            wanted = set(items)
            there = client.jobs.items(job_key, statuses=["ERROR", "NOT_FOUND"])
            chosen["itemIds"] = [each.id for each in there if each.item_key in wanted]
        empty = bool(items) and not chosen["itemIds"]
        given = {name: value for name, value in chosen.items() if value is not None}
        count = 0 if empty else client.jobs.reprocess(job_key, **given)
    output.show(found := Reprocessed(count, dry_run), str(found))


@over_http(processing.kickoff)
def kickoff(job_key: str, seconds: float) -> None:
    with connected() as client:
        told = client.jobs.kick_off(job_key, seconds)
    open_items = told["total_items"] - told["processed_items"]
    output.show(KickOffShown(told["jobId"], told["status"], told["worked"], open_items, told["ended"]))


COMMANDS["job"] = group_of(job_commands.job, JOB)


def every() -> dict[str, click.Command]:
    """Return all commands that a server can do, by their names."""
    return {**COMMANDS, **FILES}
