"""`bulk distribute …`. What a command needs is imported when it runs."""

import json
import sys
from typing import BinaryIO

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.counted import counted
from bulk_pipelines.distribution.shown import DistributionShown, DistributionSubmitted, SampleShown
from bulk_pipelines.terminal.connecting import connected


@click.group(name="distribute")
def group() -> None:
    """Produce or reuse one file for each input of a list, and ask for the files.

    bulk distribute sample | bulk distribute submit - | bulk distribute run -
    """


@group.command()
@click.argument("request", type=click.File("rb"))
@click.option("--idempotency-key", help="The same key again, with the same inputs, answers with the first job.")
@click.option("--priority", default=0, show_default=True, help="From -100 to 100: a higher one is launched first.")
@output.shows(DistributionSubmitted)
def submit(request: BinaryIO, idempotency_key: str | None, priority: int) -> None:
    """Submit {"inputs": [{"indexKey", "effectiveDate", "asofindicator"}, …]} from a JSON file; - is standard
    input.

    The relay of `bulk up` launches the job; `bulk distribute run` works it at once.
    """
    from bulk_pipelines.distribution import kind, submission
    from bulk_pipelines.distribution.request import DistributionRequest, inputs_of
    from bulk_pipelines.terminal import commanding

    submitted = submission.submit(
        connected(),
        kind.kind_of(settings.current()),
        DistributionRequest.parse(inputs_of(request.read())),
        commanding.sender(idempotency_key, priority),
    )
    output.show(DistributionSubmitted(submitted.job.job_key, str(submitted.job.status)))


@group.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@output.shows(DistributionShown)
def run(job_key: str) -> None:
    """Work a job now, as a run of this installation's Dagster, and show its first files. A failed one is redriven.

    JOB may be -: the answer of `bulk distribute submit`, or a key, from the input.

    Ctrl-C asks to cancel the job.
    """
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.distribution import answer
    from bulk_pipelines.engine.jobs import redrive
    from bulk_pipelines.engine.states import JobState
    from bulk_pipelines.terminal import commanding, progress_bar, watching

    key = answered_key(sys.stdin.read()) if job_key == "-" else job_key
    pool = connected()
    with transaction(pool) as connection:
        job = answer.distribution_job(connection, key)
    if job.status is JobState.FAILED:
        redrive.redrive(pool, key, by=commanding.actor())
    work = click.get_current_context().find_root().obj
    progress_bar.work_and_watch(
        pool, work, lambda: watching.plain(pool, key), progress_bar.gauge_of_items, quiet=output.chosen(output.QUIET)
    )
    found = answer.of_job(pool, key, size=10)
    output.show(DistributionShown(**found))
    if found["status"] != "COMPLETED":
        sys.exit(1)


@group.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--size", default=1_000, show_default=True, type=click.IntRange(1, 1_000), help="Files on a page.")
@click.option("--after", help="The `next` of the page before.")
@output.shows(DistributionShown)
def status(job_key: str, size: int, after: str | None) -> None:
    """Show a job's state, its counts and its files, as JSON."""
    from bulk_pipelines.distribution import answer

    output.show(DistributionShown(**answer.of_job(connected(), job_key, size=size, after=after)))


@group.command()
@click.option("--indexes", default=20, show_default=True, type=click.IntRange(1, 5_000), help="How many indexes.")
@click.option("--days", default=2, show_default=True, type=click.IntRange(1, 365), help="How many days of each.")
@click.option("--constituents", default=50, show_default=True, type=click.IntRange(1, 5_000), help="Rows of each file.")
@output.shows(SampleShown)
def sample(indexes: int, days: int, constituents: int) -> None:
    """Fill the table index_data with made-up rows, and print the request that asks for all of them."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.distribution.sample import Sample, fill

    wanted = Sample(indexes, days, constituents=constituents)
    with transaction(connected()) as connection:
        added = fill(connection, wanted)
    click.echo(f"{counted(added, 'row')} added to index_data", err=True)
    output.show(SampleShown(wanted.inputs()))


def answered_key(text: str) -> str:
    try:
        return str(json.loads(text)["jobId"])
    except (ValueError, TypeError, KeyError):
        return text.strip()
