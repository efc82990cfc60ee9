"""`bulk import errors`, `records`, `replay` and `undo`: the commands for an import that is there already. What they
need is imported when they run."""

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.counted import counted
from bulk_pipelines.imports.commands import follow
from bulk_pipelines.imports.report.shown import ImportShown, RejectShown, RejectsShown, UndoShown, why
from bulk_pipelines.terminal.connecting import connected


@click.command()
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


@click.command()
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


@click.command()
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
    from bulk_pipelines.imports.afterwards import replays
    from bulk_pipelines.imports.plan.land import landing
    from bulk_pipelines.imports.request import RequestedFile
    from bulk_pipelines.storage.access import access_of
    from bulk_pipelines.terminal import commanding

    chosen = settings.current()
    pool = connected()
    click.get_current_context().find_root().obj.ready()
    if source is None:
        submitted = replays.replay(pool, job_key, landing.place(chosen), access_of(chosen), commanding.actor())
    else:
        file = RequestedFile.of(source)
        with transaction(pool) as connection:
            submitted = replays.replay_mended(connection, job_key, [file], commanding.actor(), idempotency_key)
    again = "" if submitted.created else ", submitted before"
    output.note(f"import {submitted.job.job_key} of the records that {job_key} rejected{again}")
    follow(pool, submitted.job.job_key, submitted_before=not submitted.created)


@click.command()
@click.argument("job_key", metavar="JOB", shell_complete=suggestions.jobs)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.shows(UndoShown)
def undo(job_key: str, yes: bool) -> None:
    """Remove the rows that an import in the mode insert added, after showing how many there are. Rows that were changed
    since, or that other rows refer to, stay."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.imports import submission
    from bulk_pipelines.imports.afterwards import undo as undoing
    from bulk_pipelines.terminal import commanding, progress_bar

    pool = connected()
    with transaction(pool) as connection:
        job = submission.import_job(connection, job_key)
        resource = undoing.undoable(job)
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
            removed = undoing.undo(pool, job, commanding.actor(), taken)
    lines = [f"{counted(removed, 'row')} taken back"] if found.free else []
    if removed < found.free:
        lines.append(
            f"{found.free - removed:,} stay: the table did not give them back, or somebody has come to need them"
        )
    output.show(UndoShown(job_key, found.free, found.changed, found.referred_to, removed), "\n".join(lines))
