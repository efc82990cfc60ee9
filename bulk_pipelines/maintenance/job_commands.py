"""`bulk jobs` and `bulk job …`. What a command needs is imported when it runs."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.engine.states import JobState
from bulk_pipelines.maintenance import job_answers
from bulk_pipelines.maintenance.job_answers import JobLine, JobShown
from bulk_pipelines.settings import addresses
from bulk_pipelines.terminal.connecting import connected

if TYPE_CHECKING:
    from sqlalchemy import Engine

WATCH_SECONDS = 1.0


MOMENTS = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])


@click.command()
@click.option("--kind", "kinds", multiple=True, help="Only jobs of these kinds: import_users, distribution …")
@click.option(
    "--state",
    "statuses",
    multiple=True,
    type=click.Choice([state.lower() for state in JobState], case_sensitive=False),
    help="Only jobs in these states.",
)
@click.option("--owner", help="Only jobs of this owner.")
@click.option("--origin", help="Only jobs that came through this door: cli, api, ui or sensor.")
@click.option("--text", help="Only jobs whose key, kind or request has this text in it.")
@click.option("--since", type=MOMENTS, help="Only jobs submitted at this time or later.")
@click.option("--until", type=MOMENTS, help="Only jobs submitted before this time.")
@click.option("--before", shell_complete=suggestions.jobs, help="A page: the jobs before this one.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000), help="A page: at most so many.")
@output.shows(JobLine, many=True)
def jobs(
    kinds: tuple[str, ...],
    statuses: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    before: str | None,
    limit: int,
    **wanted: str | None,
) -> None:
    """List jobs, the newest first."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import jobs as engine_jobs
    from bulk_pipelines.engine.jobs import listing

    chosen = listing.Wanted(
        kinds=kinds or None, statuses=statuses or None, since=local(since), until=local(until), **wanted
    )
    with transaction(connected()) as connection:
        before_id = None if before is None else engine_jobs.find(connection, before).job_id
        found = listing.page(connection, chosen, limit + 1, before_id)
    lines = [job_answers.line_of(job) for job in found[:limit]]
    output.show(lines, job_answers.list_text(lines))
    if len(found) > limit:
        output.note(f"… the next ones: --before {lines[-1].job}")


def local(moment: datetime | None) -> datetime | None:
    """Return the moment that a person named by the clock of this machine."""
    return None if moment is None else moment.astimezone(UTC)


@click.group()
def job() -> None:
    """Look at one job."""


@job.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--watch", is_flag=True, help="Follow it until it is over; Ctrl-C leaves it alone.")
@output.shows(JobShown)
def show(job_key: str, watch: bool) -> None:
    """Show one job: what was asked, by whom, how it stands, its runs, and what to do next."""
    pool = connected()
    shown = look(pool, job_key)
    if watch:
        shown = watched(pool, shown)
    output.show(shown, job_answers.shown_text(shown))
    if watch:
        state = shown.job.state
        output.end(
            state not in {JobState.FAILED, JobState.CANCELLED}, with_errors=state is JobState.COMPLETED_WITH_ERRORS
        )


def look(pool: "Engine", job_key: str) -> JobShown:
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import jobs, listing

    with transaction(pool) as connection:
        found = jobs.find(connection, job_key)
        runs = listing.runs(connection, found)
    return job_answers.shown_of(found, runs, addresses.dagster(settings.current()))


def watched(pool: "Engine", shown: JobShown) -> JobShown:
    """Follow a job until it is over, and say in a line whatever changes."""
    said = ""
    while shown.job.finished_at is None:
        counts = ", ".join(f"{count:,} {state}" for state, count in shown.items.items() if count)
        line = f"{shown.job.job} {shown.job.state}: {counts or 'no items yet'}"
        if line != said:
            output.note(line)
            said = line
        time.sleep(WATCH_SECONDS)
        shown = look(pool, shown.job.job)
    return shown
