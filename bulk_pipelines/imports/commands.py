"""`bulk import FILE`. The commands that look back on an import stand in `afterwards`. What a command needs is imported
when it runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.formats.flags import reading_options, with_reading
from bulk_pipelines.imports.files_first import FilesFirst
from bulk_pipelines.terminal.connecting import connected

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from bulk_pipelines.imports.request import ImportRequest, Options
    from bulk_pipelines.resources.declaration import Resource


@click.group(name="import", cls=FilesFirst)
def group() -> None:
    """Load files into users, articles, comments or any table; look at what was rejected; run it again; take it back."""


@group.command()
@click.argument("sources", nargs=-1, required=True, metavar="FILE...", shell_complete=suggestions.files)
@click.option(
    "--resource",
    shell_complete=suggestions.resources,
    help="What the records are: users, articles, comments, or an adopted table.",
)
@click.option("--table", help="In place of a resource, any table: orders, shop.orders. Nothing has to be declared.")
@click.option(
    "--mode",
    default="insert",
    show_default=True,
    shell_complete=suggestions.modes,
    help="insert: only new rows; upsert: also changes.",
)
@click.option("--format", help="csv, ndjson, json, xlsx, parquet or arrow; recognised when left out.")
@click.option("--compression", help="none, gzip, zstd, bzip2 or xz; recognised when left out.")
@click.option(
    "--match-on",
    help="Upsert: the key that tells which row a record is about: email, or order_no,line. "
    "[default: the id if the file has it, else the next key whose columns it has]",
)
@click.option(
    "--on-error",
    default="continue",
    show_default=True,
    help="How many rejects are accepted: continue: any number; abort: none; 100 or 5%: so many.",
)
@click.option("--idempotency-key", help="The same key again answers with the first import.")
@click.option("--priority", default=0, show_default=True, help="From -100 to 100: a higher one is launched first.")
@click.option("--validate-only", is_flag=True, help="Load nothing, report everything.")
@click.option("--preview", is_flag=True, help="Submit nothing: show how the file is read, and what would be rejected.")
@reading_options
@output.shows("bulk_pipelines.imports.report.printing.FileShown")
def file(
    sources: Sequence[str],
    resource: str | None,
    table: str | None,
    idempotency_key: str | None,
    priority: int,
    preview: bool,
    **options: Any,
) -> None:
    """Load files: paths, or addresses such as s3://bucket/users.csv. Ctrl-C asks to cancel."""
    from bulk_pipelines.imports.plan import beforehand

    if idempotency_key is None:  # a file that was imported before under its key may be gone
        beforehand.require_files(sources)  # before modules are imported that take time
    from bulk_pipelines.imports.plan import fitting
    from bulk_pipelines.imports.request import Options, RequestedFile

    options = with_reading(options)
    files = tuple(RequestedFile.of(source) for source in sources)
    declared = declaration_of(resource, table)
    asked = Options(declared.name, **options, declaration=None if declared.built_in else declared)
    request = asked.request(files)
    if preview:
        show_preview(tuple(sources), asked)
        return
    if len(files) == 1:  # of several files those that fit are imported
        fitting.refuse_unfit(asked, files[0], settings.current())
    submit(request, idempotency_key, priority)


def declaration_of(resource: str | None, table: str | None) -> "Resource":
    """Return the declaration with this name, or what the catalogue knows of the table."""
    from bulk_pipelines import resources

    if resource is not None and table is None:
        return resources.find(resource)  # a mistake is told before a server is started
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.resources import adoption

    with transaction(connected()) as connection:
        return adoption.chosen(connection, resource, table)


def submit(request: "ImportRequest", idempotency_key: str | None, priority: int) -> None:
    """Submit an import, and follow it to its end."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.imports import submission
    from bulk_pipelines.terminal import commanding

    pool = connected()
    click.get_current_context().find_root().obj.ready()
    with transaction(pool) as connection:
        submitted = submission.submit(connection, request, commanding.sender(idempotency_key, priority))
    output.note(f"import {submitted.job.job_key}" + ("" if submitted.created else ", submitted before"))
    follow(pool, submitted.job.job_key, submitted_before=not submitted.created)


def show_preview(sources: tuple[str, ...], options: "Options") -> None:
    """Print how each file would be read. A database is needed for expressions, and for the values of a table that only
    PostgreSQL can read."""
    from bulk_pipelines import resources
    from bulk_pipelines.imports.report import printing
    from bulk_pipelines.imports.report.preview import preview
    from bulk_pipelines.imports.request import RequestedFile

    declared = options.declaration or resources.find(options.resource)
    pool = connected() if options.reading.asks_postgres or not declared.built_in else None
    shown = []
    for source in sources:
        found = preview(pool, options, RequestedFile.of(source), settings.current(), alone=len(sources) == 1)
        shown.append(printing.FilePreviewed(found, printing.command(click.get_current_context(), found.reading)))
    output.show(shown, printing.text(shown))
    if any(each.preview.problem is not None for each in shown):
        click.get_current_context().exit(1)


def follow(pool: "Engine", job_key: str, *, submitted_before: bool) -> None:
    """Work the import under Dagster, show how it goes, and exit with the code that tells how it ended."""
    from bulk_pipelines.engine.states import JobState
    from bulk_pipelines.imports.report import watching

    seen = watching.work_and_watch(
        pool, job_key, click.get_current_context().find_root().obj, quiet=output.chosen(output.QUIET)
    )
    output.show(watching.shown(seen, submitted_before=submitted_before), watching.summary(seen))
    output.end(seen.good, with_errors=seen.job.status is JobState.COMPLETED_WITH_ERRORS)
