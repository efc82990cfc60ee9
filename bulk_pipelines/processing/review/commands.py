"""`bulk review`. What a command needs is imported when it runs."""

import json

import click

from bulk_pipelines import output, suggestions
from bulk_pipelines.counted import counted
from bulk_pipelines.processing.shown import DecisionsApplied, DecisionShown, ReviewRow, ThresholdsShown
from bulk_pipelines.terminal.connecting import connected


@click.group()
def review() -> None:
    """Look at rows of which a recipe is not sure, and decide about them. A decision holds for all rows of the recipe
    that say the same, also in later jobs."""


@review.command(name="list")
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option(
    "--outcome",
    default="ambiguous",
    show_default=True,
    type=click.Choice(["ambiguous", "matched"]),
    help="Which rows are shown.",
)
@click.option("--after", default="", help="The key of the last row of the page before.")
@click.option("--size", default=20, show_default=True, type=click.IntRange(1, 1_000), help="How many rows.")
@output.shows(ReviewRow, many=True)
def list_rows(job_key: str, outcome: str, after: str, size: int) -> None:
    """List rows with their candidates. Each row is a line of JSON; with --json, all of them are one list."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.processing.review import uncertain

    with transaction(connected()) as connection:
        found = uncertain.page(connection, job_key, outcome=outcome, after=after, size=size)
    rows = [row.as_json() for row in found]
    output.show([ReviewRow(**row) for row in rows], "\n".join(json.dumps(row, ensure_ascii=False) for row in rows))


@review.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.argument("row")
@click.argument("verdict", type=click.Choice(["accept", "reject", "none", "open"]))
@click.argument("entry", required=False)
@output.shows(DecisionShown)
def decide(job_key: str, row: str, verdict: str, entry: str | None) -> None:
    """Decide about a row: accept or reject the candidate ENTRY, say that none is right, or leave it open again."""
    from bulk_pipelines.processing.review import deciding
    from bulk_pipelines.terminal import commanding

    decided = deciding.decide(connected(), job_key, row, verdict, entry, commanding.actor()).as_json()
    output.show(DecisionShown(**decided), json.dumps(decided, ensure_ascii=False))


@review.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@output.shows(DecisionsApplied)
def apply(job_key: str) -> None:
    """Apply all decisions to the rows of a job, as they are applied to the rows of later jobs."""
    from bulk_pipelines.processing.review import deciding
    from bulk_pipelines.terminal import commanding

    changed = deciding.apply(connected(), job_key, commanding.actor())
    output.show(DecisionsApplied(changed), f"{counted(changed, 'row')} changed")


@review.command(name="thresholds")
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--precision", default=0.95, show_default=True, help="The share of matches that must be right.")
@output.shows(ThresholdsShown)
def propose(job_key: str, precision: float) -> None:
    """Propose a threshold and a margin that agree with the decisions, and show as JSON what they would change."""
    from bulk_pipelines.processing.review import thresholds

    output.show(ThresholdsShown(**thresholds.propose(connected(), job_key, precision).as_json()))
