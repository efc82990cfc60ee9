"""`bulk export`. What the command needs is imported when it runs."""

from collections.abc import Sequence
from typing import Any, TextIO

import click

from bulk_pipelines import output, suggestions
from bulk_pipelines.exports.report.shown import ExportShown
from bulk_pipelines.terminal.connecting import connected


@click.command(name="export")
@click.argument("resource", required=False, shell_complete=suggestions.resources)
@click.option("--table", help="In place of a resource, any table: orders, shop.orders.")
@click.option(
    "--query",
    type=click.File("r", encoding="utf-8"),
    help="In place of a resource, a file with a SELECT; - is standard input.",
)
@click.option("--format", default="csv", show_default=True, help="csv, ndjson, json, parquet, xlsx or arrow.")
@click.option("--fields", help="The columns, in this order: id,email. All of them when left out.")
@click.option("--where", multiple=True, help="A condition; may be repeated: role=admin, 'created_at>=2026-01-01'.")
@click.option("--order", help="Columns to order by, - before one that goes down: -created_at,name.")
@click.option("--compression", default="none", show_default=True, help="none, gzip or zstd.")
@click.option(
    "--escape-formulas", is_flag=True, help="csv: an apostrophe before what a spreadsheet takes for a formula."
)
@click.option(
    "--to",
    shell_complete=suggestions.files,
    help="A folder, or a file's name: a path, or an address such as s3://bucket/folder; - for standard output. "
    "[default: BULK_EXPORTS_URL]",
)
@click.option("--idempotency-key", help="The same key again, with the same request, answers with the first export.")
@click.option("--priority", default=0, show_default=True, help="From -100 to 100: a higher one is launched first.")
@output.shows(ExportShown)
def command(
    resource: str | None,
    table: str | None,
    query: TextIO | None,
    where: Sequence[str],
    idempotency_key: str | None,
    priority: int,
    **options: Any,
) -> None:
    """Write the rows of users, articles, comments, any table or a SELECT to a file, whole or not at all.
    Ctrl-C cancels.
    """
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.errors import InvalidInput
    from bulk_pipelines.exports import printing, submission
    from bulk_pipelines.exports.publish import target
    from bulk_pipelines.exports.report import watching
    from bulk_pipelines.exports.request import STDOUT, TARGET, ExportRequest
    from bulk_pipelines.terminal import commanding

    given = {name: value for name, value in options.items() if value is not None}
    to_stdout = given.get(TARGET) == STDOUT
    if to_stdout:
        output.refuse_json("an export to standard output")
        del given[TARGET]
    given["where"] = list(where)
    if resource is not None:
        ExportRequest.parse(given | {"resource": resource})  # a mistake is told before a server is started
    if to_stdout and (idempotency_key is not None or priority):
        raise InvalidInput(TARGET, "an export to standard output is no job: leave the key and the priority out")
    target.require_folder(given.get(TARGET, ""))
    pool = connected()
    with transaction(pool) as connection:
        source = submission.source(connection, resource, table, None if query is None else query.read())
    request = ExportRequest.parse(given | source)
    if to_stdout:
        printing.print_out(pool, request, output.binary())
        return
    click.get_current_context().find_root().obj.ready()
    with transaction(pool) as connection:
        submitted = submission.submit(
            connection,
            request,
            commanding.sender(idempotency_key, priority),
        )
    output.note(f"export {submitted.job.job_key}" + ("" if submitted.created else ", submitted before"))
    seen = watching.work_and_watch(
        pool,
        submitted.job.job_key,
        click.get_current_context().find_root().obj,
        quiet=output.chosen(output.QUIET),
    )
    output.show(watching.shown(seen, submitted_before=not submitted.created), watching.summary(seen))
    output.end(seen.good)
