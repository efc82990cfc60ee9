"""The commands of `bulk import`. Each command imports the modules that it needs when it runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.counted import counted
from bulk_pipelines.formats.flags import reading_options, with_reading
from bulk_pipelines.imports.files_first import FilesFirst
from bulk_pipelines.imports.report.shown import ImportShown, RejectShown, RejectsShown, UndoShown, why

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from bulk_pipelines.imports.request import ImportRequest, Options
    from bulk_pipelines.resources.declaration import Resource


def connected() -> "Engine":
    from bulk_pipelines.database import ready

    return ready.opened(settings.current(), "bulk cli")


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
    from bulk_pipelines.engine.jobs import commanding
    from bulk_pipelines.imports import submission

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
    pool = connected() if options.reading.expressions or not declared.built_in else None
    shown = []
    for source in sources:
        found = preview(pool, options, RequestedFile.of(source), settings.current())
        shown.append(printing.FilePreviewed(found, printing.command(sources, options, found.reading)))
    output.show(shown, printing.text(shown))
    if any(each.preview.problem is not None for each in shown):
        click.get_current_context().exit(1)


@group.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--format", "kind", type=click.Choice(["csv", "ndjson"]), help="Download all of them as a file.")
@click.option(
    "--to", type=click.Path(dir_okay=False, writable=True), help="The file to write; without it, standard output."
)
@click.option("--as-source", is_flag=True, help="Download the records as they stood in the file, to be mended.")
@click.option("--after-line", default=0, help="A page: the rejects behind this line.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1_000), help="A page: at most so many.")
@output.shows(RejectsShown)
@click.pass_context
def errors(
    context: click.Context, job_key: str, kind: str | None, to: str | None, as_source: bool, after_line: int, limit: int
) -> None:
    """Show the records that an import rejected, in the order of the file, with every reason."""
    if as_source or kind is not None or to is not None:
        output.refuse_json("a download")
    if as_source:
        context.invoke(records, job_key=job_key, outcome="failed", to=to, number=None)
        return
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.imports import submission
    from bulk_pipelines.imports.load import rejects
    from bulk_pipelines.imports.load.rejects import Download
    from bulk_pipelines.imports.report.report import row_of

    pool = connected()
    with transaction(pool) as connection:
        job = submission.import_job(connection, job_key)
    if kind is not None or to is not None:
        with click.open_file(to or "-", "wb") as target:
            for piece in rejects.download(lambda: transaction(pool), job.job_id, Download(kind or "csv")):
                target.write(piece)
        return
    with transaction(pool) as connection:
        page = rejects.page(connection, job.job_id, after_line, limit)
        total = rejects.count(connection, job.job_id)
        more = bool(page) and rejects.follow(connection, job.job_id, page[-1].line)
    rows = [row_of(each) for each in page]
    rejects_shown = [
        RejectShown(each.line, each.reasons, str(row["record"])) for each, row in zip(page, rows, strict=True)
    ]
    lines = [f"line {each.line}: {why(each.reasons)}  {each.record}" for each in rejects_shown]
    if more:
        lines.append(f"… {total} in all; the next ones: bulk import errors {job_key} --after-line {page[-1].line}")
    elif not total:
        gone = (job.result or {}).get("rejected", 0)
        lines.append(f"retention has removed its {counted(gone, 'reject')}" if gone else "no record was rejected")
        if job.dlq_items:
            lines.append(
                f"{job.dlq_items} of {counted(job.total_items, 'range')} could not be loaded: "
                f"bulk dlq list --job {job_key}"
            )
    output.show(RejectsShown(job_key, rejects_shown, total, bool(more)), "\n".join(lines))


@group.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.argument("outcome", type=click.Choice(["successful", "failed", "unprocessed"]))
@click.option(
    "--to", type=click.Path(dir_okay=False, writable=True), help="The file to write; without it, standard output."
)
@click.option(
    "--file",
    "number",
    type=click.IntRange(1),
    help="The number of the file, if the import has several with different columns.",
)
def records(job_key: str, outcome: str, to: str | None, number: int | None) -> None:
    """Write out the records of an import by what became of them, as they stood in the file and in its order."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.imports import submission
    from bulk_pipelines.imports.afterwards import outcomes

    pool = connected()
    with transaction(pool) as connection:
        job = submission.import_job(connection, job_key)
    _, pieces = outcomes.download(lambda: transaction(pool), job, outcomes.Outcome(outcome), number)
    with click.open_file(to or "-", "wb") as target:
        for piece in pieces:
            target.write(piece)


@group.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    shell_complete=suggestions.files,
    help="The records as you have mended them; without it, as they stood.",
)
@click.option("--idempotency-key", help="With --from: the same key again answers with the first import.")
@output.shows(ImportShown)
def replay(job_key: str, source: str | None, idempotency_key: str | None) -> None:
    """Import the rejected records again, as an import of its own."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import commanding
    from bulk_pipelines.imports import submission
    from bulk_pipelines.imports.plan.land import landing
    from bulk_pipelines.imports.request import RequestedFile
    from bulk_pipelines.storage.access import access_of

    chosen = settings.current()
    pool = connected()
    click.get_current_context().find_root().obj.ready()
    if source is None:
        submitted = submission.replay(pool, job_key, landing.place(chosen), access_of(chosen), commanding.actor())
    else:
        file = RequestedFile.of(source)
        with transaction(pool) as connection:
            submitted = submission.replay_mended(connection, job_key, [file], commanding.actor(), idempotency_key)
    again = "" if submitted.created else ", submitted before"
    output.note(f"import {submitted.job.job_key} of the records that {job_key} rejected{again}")
    follow(pool, submitted.job.job_key, submitted_before=not submitted.created)


@group.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.shows(UndoShown)
def undo(job_key: str, yes: bool) -> None:
    """Remove the rows that an import in the mode insert added, after showing how many there are. Rows that were changed
    since, or that other rows refer to, stay."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.engine.jobs import commanding, progress_bar
    from bulk_pipelines.imports import submission
    from bulk_pipelines.imports.afterwards import undo as undoing

    pool = connected()
    with transaction(pool) as connection:
        job = submission.import_job(connection, job_key)
        resource = submission.undoable(job)
        found = undoing.count(connection, resource, job.job_id)
    output.note(
        f"{counted(found.free, 'row')} of {job_key} can be taken back from {resource.table}; "
        f"{counted(found.changed, 'was', 'were')} changed since and {counted(found.referred_to, 'is', 'are')} "
        "referred to: those stay"
    )
    if found.free and not yes:
        output.confirm("Take them back?")
    removed = 0
    if found.free:
        words, quiet = ("row taken back", "rows taken back"), output.chosen(output.QUIET)
        with progress_bar.counted(words[0], found.free, more=words[1], quiet=quiet) as taken:
            removed = submission.take_back(pool, job, commanding.actor(), taken)
    lines = [f"{counted(removed, 'row')} taken back"] if found.free else []
    if removed < found.free:
        lines.append(
            f"{found.free - removed:,} stay: the table did not give them back, or somebody has come to need them"
        )
    output.show(UndoShown(job_key, found.free, found.changed, found.referred_to, removed), "\n".join(lines))


def follow(pool: "Engine", job_key: str, *, submitted_before: bool) -> None:
    """Work the import under Dagster, show how it goes, and exit with the code that tells how it ended."""
    from bulk_pipelines.engine.states import JobState
    from bulk_pipelines.imports.report import watching

    seen = watching.work_and_watch(
        pool, job_key, click.get_current_context().find_root().obj, quiet=output.chosen(output.QUIET)
    )
    output.show(watching.shown(seen, submitted_before=submitted_before), watching.summary(seen))
    output.end(seen.good, with_errors=seen.job.status is JobState.COMPLETED_WITH_ERRORS)
