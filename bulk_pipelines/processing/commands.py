"""`bulk process`, `bulk grid`, `bulk reprocess` and `bulk kickoff`. What a command needs is imported
when it runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.formats.flags import reading_options, with_reading
from bulk_pipelines.processing.recipes.suggested import recipes_and_files
from bulk_pipelines.processing.shown import KickOffShown, ProcessShown, Reprocessed
from bulk_pipelines.terminal.connecting import connected

if TYPE_CHECKING:
    from sqlalchemy import Engine


@click.command()
@click.argument("source", required=False, metavar="[FILE]", shell_complete=suggestions.files)
@click.option(
    "--recipe",
    required=True,
    shell_complete=recipes_and_files,
    help="The recipe (see `bulk recipes list`), or a file with one.",
)
@click.option("--query", type=click.File("r", encoding="utf-8"), help="A file with a SELECT, in place of FILE.")
@click.option("--table", help="A table of the database, in place of FILE: table, or schema.table.")
@click.option("--format", help="csv, ndjson, json, xlsx, parquet or arrow; recognised when left out.")
@click.option("--compression", help="none, gzip, zstd, bzip2 or xz; recognised when left out.")
@click.option("--idempotency-key", help="The same key again answers with the first job.")
@click.option("--priority", default=0, show_default=True, help="From -100 to 100: a higher one is launched first.")
@click.option("--submit-only", is_flag=True, help="Do not work the job here: the relay of `bulk up` launches it.")
@reading_options
@output.shows(ProcessShown)
def process(
    recipe: str,
    query: TextIO | None,
    idempotency_key: str | None,
    priority: int,
    submit_only: bool,
    **options: Any,
) -> None:
    """Look up every row of a file, a query or a table by a recipe, or every picture of a folder or a zip archive.
    Ctrl-C cancels.
    """
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.states import JobState
    from bulk_pipelines.processing import submission
    from bulk_pipelines.processing.recipes import library
    from bulk_pipelines.processing.request import ProcessingRequest
    from bulk_pipelines.terminal import commanding, progress_bar, watching

    request = ProcessingRequest.parse(
        library.chosen_by(settings.current(), recipe),
        query=query.read() if query is not None else None,
        **with_reading(options),
    )
    pool = connected()
    runs = click.get_current_context().find_root().obj
    if not submit_only:
        runs.ready()
    with transaction(pool) as connection:
        submitted = submission.submit(connection, request, commanding.sender(idempotency_key, priority))
    key = submitted.job.job_key
    said = f"job {key}" + ("" if submitted.created else ", submitted before")
    if submit_only:
        shown = ProcessShown(key, not submitted.created, str(submitted.job.status), {}, None)
        output.show(shown, said)
        return
    output.note(said)
    seen = progress_bar.work_and_watch(
        pool,
        runs,
        lambda: watching.plain(pool, key),
        progress_bar.gauge_of_items,
        quiet=output.chosen(output.QUIET),
    )
    shown = shown_of(pool, key, submitted_before=not submitted.created)
    output.show(shown, summary(shown))
    state = seen.job.status
    output.end(
        state in {JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS},
        with_errors=state is JobState.COMPLETED_WITH_ERRORS,
    )


def shown_of(pool: "Engine", job_key: str, *, submitted_before: bool) -> ProcessShown:
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.processing import submission
    from bulk_pipelines.processing.report import report

    with transaction(pool) as connection:
        job = submission.processing_job(connection, job_key)
        counts = report.counts(connection, job.job_id)
    return ProcessShown(job_key, submitted_before, str(job.status), counts.outcomes, job.last_error)


def summary(shown: ProcessShown) -> str:
    """Say in a few lines what came of a job."""
    parts = [f"{count:,} {outcome}" for outcome, count in sorted(shown.outcomes.items())]
    lines = [f"{shown.job} {shown.state}: {', '.join(parts) or 'no rows'}"]
    lines += [shown.error] if shown.error else []
    return "\n".join([*lines, f"the grid: bulk grid {shown.job} --format xlsx --to {shown.job}.xlsx"])


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option(
    "--format",
    "kind",
    default="csv",
    show_default=True,
    type=click.Choice(["csv", "xlsx", "parquet"]),
    help="The file's format.",
)
@click.option("--to", default="-", shell_complete=suggestions.files, help="The file to write; - is standard output.")
@click.option("--outcome", "outcomes", multiple=True, help="Only rows with this outcome; may be repeated.")
@click.option(
    "--to-table",
    metavar="RESOURCE",
    shell_complete=suggestions.resources,
    help="Import the grid into this resource, whose columns the headers of the grid must name.",
)
@click.option(
    "--mode",
    default="upsert",
    show_default=True,
    shell_complete=suggestions.modes,
    help="With --to-table: upsert or insert.",
)
def grid(job_key: str, kind: str, to: str, outcomes: Sequence[str], to_table: str | None, mode: str) -> None:
    """Write the grid of a job as a file: one row for each row of the source. It can also be written while the job
    runs."""
    from contextlib import closing

    from bulk_pipelines.processing.report import grid as grids
    from bulk_pipelines.storage.access import access_of
    from bulk_pipelines.storage.locations import file

    if to_table is not None:
        import_grid(job_key, outcomes, to_table, mode)
        return
    pieces = grids.written(connected(), job_key, grids.GridFormat(kind), outcomes)
    with closing(pieces):
        if to == "-":
            out = output.binary()
            for piece in pieces:
                out.write(piece)
            return
        storage, key = file(to, access_of(settings.current()), "to")
        with storage, storage.publish(key) as sink:
            for piece in pieces:
                sink.write(piece)


def import_grid(job_key: str, outcomes: Sequence[str], resource: str, mode: str) -> None:
    """Write the grid where files are landed, and import it like any other file. The same grid is imported only once."""
    from bulk_pipelines.processing.report import loading

    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group), "the root has the commands of all slices"
    importing = root.command.commands["import"]
    assert isinstance(importing, click.Group), "imports have several commands"
    with loading.written(connected(), job_key, outcomes, settings.current()) as found:
        root.invoke(
            importing.commands["file"],
            sources=[found.url],
            resource=resource,
            mode=mode,
            format="csv",
            idempotency_key=found.key,
        )


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--status", "statuses", multiple=True, help="Only rows that are ERROR or NOT_FOUND; both when left out.")
@click.option("--item", "items", multiple=True, help="Only the row with this key; may be repeated.")
@click.option(
    "--where",
    multiple=True,
    help="Only rows of which a column of the source has this value: column=value; may be repeated.",
)
@click.option("--error", help="Only rows whose error has this text in it.")
@click.option(
    "--error-class",
    help="Only rows with this class of error: transient, throttled, permanent, unknown, not_found or died.",
)
@click.option(
    "--variant", "variants", multiple=True, help="A variant to try, in place of the recipe's order; may be repeated."
)
@click.option("--keep-attempts", is_flag=True, help="Only rows that have attempts left, and they get no new ones.")
@click.option("--dry-run", is_flag=True, help="Only count the rows.")
@output.shows(Reprocessed)
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
    """Try rows again that failed, or for which nothing was found: all of them, or those that the options name."""
    from bulk_pipelines.processing import control
    from bulk_pipelines.terminal import commanding

    chosen = control.Chosen.parse(statuses, items, where, error, error_class)
    count = control.reprocess(
        connected(),
        job_key,
        chosen,
        variants=variants,
        keep_attempts=keep_attempts,
        dry_run=dry_run,
        by=commanding.actor(),
    )
    output.show(found := Reprocessed(count, dry_run), str(found))


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--seconds", default=5.0, show_default=True, help="How many seconds to work.")
@output.shows(KickOffShown)
def kickoff(job_key: str, seconds: float) -> None:
    """Work a job here and now for some seconds, beside whoever works it elsewhere, and show how far it is, as JSON."""
    from bulk_pipelines.processing import control
    from bulk_pipelines.terminal import commanding

    kicked = control.kick_off(connected(), job_key, seconds, by=commanding.actor())
    output.show(KickOffShown(**kicked.as_json()))
