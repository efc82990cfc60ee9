"""`bulk dlq …` and the commands that pause, resume and cancel jobs. What a command needs is imported when it runs."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from bulk_pipelines import output, suggestions
from bulk_pipelines.counted import counted
from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.maintenance.shown import Discarded, JobControlled, LetterShown, Redriven
from bulk_pipelines.terminal.connecting import connected

if TYPE_CHECKING:
    from bulk_pipelines.engine.jobs.dlq import DeadLetter, Wanted
    from bulk_pipelines.engine.jobs.jobs import Job

Command = TypeVar("Command", bound=Callable[..., object])

MOST_NAMED = 5
"""How many jobs are named in one line at most."""

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Age(click.ParamType[float]):
    """An age, such as 90s, 30m, 12h or 7d, in seconds."""

    name = "age"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+)([smhd])", str(value))
        if found is None:
            self.fail(f"{value!r} is not an age such as 90s, 30m, 12h or 7d", param, ctx)
        return float(found[1]) * UNITS[found[2]]


NARROWED = [
    click.option("--job", "job_key", shell_complete=suggestions.jobs, help="Only dead letters of this job."),
    click.option("--kind", help="Only dead letters of this kind of job."),
    click.option("--error-class", help="Only dead letters that failed this way, such as permanent or died."),
    click.option(
        "--older-than", type=Age(), help="Only dead letters buried at least this long ago, such as 12h or 7d."
    ),
]


def narrowing(command: Command) -> Command:
    """Give the command the options that narrow down which dead letters are meant."""
    for option in reversed(NARROWED):
        command = option(command)
    return command


@click.group()
def dlq() -> None:
    """Look at items that were given up, try them again, or discard them."""


@dlq.command("list")
@narrowing
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000), help="How many to show.")
@output.shows("bulk_pipelines.engine.jobs.dlq.DeadLetter", many=True)
def list_letters(limit: int, **wanted: object) -> None:
    """List dead letters, the oldest first."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import dlq as letters

    with transaction(connected()) as connection:
        found = letters.page(connection, chosen(wanted), limit)
    output.show(found, "\n".join(map(line_of, found)) or "no dead letters")


@dlq.command()
@click.argument("item_id", type=int)
@output.shows(LetterShown)
def show(item_id: int) -> None:
    """Show everything about one dead letter: what, why, how often, which run."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import dlq as letters

    with transaction(connected()) as connection:
        letter = letters.show(connection, item_id)
    width = max(len(name) for name in letter)
    lines = [f"{name.ljust(width)}  {'' if value is None else value}" for name, value in letter.items()]
    output.show(LetterShown(**letter), "\n".join(lines))


@dlq.command()
@narrowing
@click.option("--not-found", is_flag=True, help="Also the items of the job for which nothing was found; with --job.")
@output.shows(Redriven)
def redrive(not_found: bool, **wanted: object) -> None:
    """Try dead letters again, with fresh budgets; the relay launches their jobs."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import dlq as letters
    from bulk_pipelines.terminal import commanding, progress_bar

    pool, asked = connected(), chosen(wanted)
    with transaction(pool) as connection:
        total = None if not_found else letters.count(connection, asked)
    with progress_bar.counted("item", total, quiet=output.chosen(output.QUIET)) as told:
        done = letters.try_again(pool, asked, commanding.actor(), not_found=not_found, told=told)
    lines = [f"{counted(done.items, 'item is', 'items are')} tried again"]
    if done.goes_on:
        lines.append(f"job {wanted['job_key']} goes on with what it had not begun")
    if done.left:
        named = ", ".join([*sorted(done.left)[:MOST_NAMED], *(["…"] if len(done.left) > MOST_NAMED else [])])
        lines.append(f"{sum(done.left.values())} stay, their jobs are cancelled (bulk dlq discard --job …): {named}")
    output.show(Redriven(done.items, done.goes_on, done.left), "\n".join(lines))


@dlq.command()
@narrowing
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.shows(Discarded)
def discard(yes: bool, **wanted: object) -> None:
    """Give dead letters up for good."""
    from bulk_pipelines.engine.jobs import dlq as letters
    from bulk_pipelines.terminal import commanding

    if not yes:
        output.confirm("They will never be tried again. Discard them?")
    discarded = letters.discard(connected(), chosen(wanted), commanding.actor())
    output.show(Discarded(discarded), f"{counted(discarded, 'item is', 'items are')} discarded")


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@output.shows(JobControlled)
def pause(job_key: str) -> None:
    """Stop working a job at the next slice border; `bulk resume` goes on with it."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import jobs
    from bulk_pipelines.terminal import commanding

    with transaction(connected()) as connection:
        show_state(jobs.pause(connection, job_key, commanding.actor()))


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@output.shows(JobControlled)
def resume(job_key: str) -> None:
    """Go on with a paused job; the relay launches it."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import jobs
    from bulk_pipelines.terminal import commanding

    with transaction(connected()) as connection:
        show_state(jobs.resume(connection, job_key, commanding.actor()))


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@output.shows(JobControlled)
def cancel(job_key: str) -> None:
    """Cancel a job: what waits is cancelled now, what is in work ends at the next slice border."""
    from bulk_pipelines.engine.jobs import jobs
    from bulk_pipelines.terminal import commanding

    show_state(jobs.cancel(connected(), job_key, commanding.actor()))


def show_state(job: "Job") -> None:
    output.show(JobControlled(job.job_key, str(job.status)), f"job {job.job_key} is {job.status}")


def chosen(wanted: dict[str, object]) -> "Wanted":
    from bulk_pipelines.engine.jobs.dlq import Wanted
    from bulk_pipelines.errors import ErrorClass

    error_class = wanted["error_class"]
    if error_class is not None and error_class not in set(ErrorClass):
        raise InvalidInput("error-class", f"{error_class!r} is none of {', '.join(ErrorClass)}")
    return Wanted(**wanted)  # type: ignore[arg-type]


def line_of(letter: "DeadLetter") -> str:
    tries = f"{letter.attempt_count} tries" if letter.attempt_count != 1 else "1 try"
    run = f", run {letter.dagster_run_id[:8]}" if letter.dagster_run_id else ""
    return (
        f"{letter.item_id}  {letter.buried_at:%Y-%m-%d %H:%M:%S}  {letter.job_key}  {letter.item_key}  "
        f"{letter.error_class}, {tries}{run}: {letter.error_message}"
    )
