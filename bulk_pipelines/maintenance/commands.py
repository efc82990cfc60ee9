"""`bulk dlq …` and the commands that pause, resume and cancel jobs. What a command needs is imported when it runs."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from bulk_pipelines import settings, suggestions
from bulk_pipelines.errors import InvalidInput

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from bulk_pipelines.engine.jobs.dlq import DeadLetter, Wanted

Command = TypeVar("Command", bound=Callable[..., object])

MOST_NAMED = 5
"""How many jobs are named in one line at most."""

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def connected() -> "Engine":
    from bulk_pipelines.database import ready

    return ready.opened(settings.current(), "bulk cli")


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
    click.option("--job", "job_key", help="Only of this job."),
    click.option("--kind", help="Only of this kind of job."),
    click.option("--error-class", help="Only those that failed this way, such as permanent or died."),
    click.option("--older-than", type=Age(), help="Only those buried at least this long ago, such as 12h or 7d."),
]


def narrowing(command: Command) -> Command:
    """Give the command the options that narrow down which dead letters are meant."""
    for option in reversed(NARROWED):
        command = option(command)
    return command


@click.group()
def dlq() -> None:
    """Items that were given up: look at them, try them again, or discard them."""


@dlq.command("list")
@narrowing
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000), help="How many to show.")
def list_letters(limit: int, **wanted: object) -> None:
    """The dead letters, the oldest first."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import dlq as letters

    with transaction(connected()) as connection:
        found = letters.page(connection, chosen(wanted), limit)
    if not found:
        click.echo("no dead letters")
    for letter in found:
        click.echo(line_of(letter))


@dlq.command()
@click.argument("item_id", type=int)
def show(item_id: int) -> None:
    """Everything about one dead letter: what, why, how often, which run."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import dlq as letters

    with transaction(connected()) as connection:
        letter = letters.show(connection, item_id)
    width = max(len(name) for name in letter)
    for name, value in letter.items():
        click.echo(f"{name.ljust(width)}  {'' if value is None else value}")


@dlq.command()
@narrowing
@click.option("--not-found", is_flag=True, help="Also the items of the job for which nothing was found; with --job.")
def redrive(not_found: bool, **wanted: object) -> None:
    """Try them again, with fresh budgets; the relay launches their jobs."""
    from bulk_pipelines.engine.jobs import commanding
    from bulk_pipelines.engine.jobs import dlq as letters

    done = letters.try_again(connected(), chosen(wanted), commanding.actor(), not_found=not_found)
    click.echo(f"{done.items} items are tried again")
    if done.goes_on:
        click.echo(f"job {wanted['job_key']} goes on with what it had not begun")
    if done.left:
        named = ", ".join([*sorted(done.left)[:MOST_NAMED], *(["…"] if len(done.left) > MOST_NAMED else [])])
        click.echo(f"{sum(done.left.values())} stay, their jobs are cancelled (bulk dlq discard --job …): {named}")


@dlq.command()
@narrowing
@click.confirmation_option(prompt="They will never be tried again. Discard them?")
def discard(**wanted: object) -> None:
    """Give them up for good."""
    from bulk_pipelines.engine.jobs import commanding
    from bulk_pipelines.engine.jobs import dlq as letters

    discarded = letters.discard(connected(), chosen(wanted), commanding.actor())
    click.echo(f"{discarded} items are discarded")


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
def pause(job_key: str) -> None:
    """Stop working a job at the next slice border; `bulk resume` goes on with it."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import commanding, jobs

    with transaction(connected()) as connection:
        click.echo(f"job {job_key} is {jobs.pause(connection, job_key, commanding.actor()).status}")


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
def resume(job_key: str) -> None:
    """Go on with a paused job; the relay launches it."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import commanding, jobs

    with transaction(connected()) as connection:
        click.echo(f"job {job_key} is {jobs.resume(connection, job_key, commanding.actor()).status}")


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
def cancel(job_key: str) -> None:
    """Cancel a job: what waits is cancelled now, what is in work ends at the next slice border."""
    from bulk_pipelines.engine.jobs import commanding, jobs

    click.echo(f"job {job_key} is {jobs.cancel(connected(), job_key, commanding.actor()).status}")


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
