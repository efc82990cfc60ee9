"""The command line, `bulk`. What a command needs is imported when it runs, so that `bulk --help` answers at once."""

import errno
import re
import subprocess
import traceback
import warnings
from contextlib import suppress

import click

from bulk_pipelines import examples, output, settings
from bulk_pipelines.api import commands as api
from bulk_pipelines.console import commands as console
from bulk_pipelines.distribution import commands as distribution
from bulk_pipelines.drops import commands as drops
from bulk_pipelines.drops.shown import ScanShown
from bulk_pipelines.errors import BulkError
from bulk_pipelines.exports import commands as exports
from bulk_pipelines.imports import commands as imports
from bulk_pipelines.imports.afterwards import commands as afterwards
from bulk_pipelines.maintenance import commands, job_commands, resource_commands
from bulk_pipelines.maintenance.shown import Migrated, PassLine
from bulk_pipelines.notices import commands as notices
from bulk_pipelines.processing import commands as processing
from bulk_pipelines.processing.recipes import commands as recipes
from bulk_pipelines.processing.review import commands as review
from bulk_pipelines.remote import commands as remote
from bulk_pipelines.remote import job_commands as remote_jobs
from bulk_pipelines.telemetry import error_log, logs
from bulk_pipelines.terminal.connecting import connected

ADVERTISED = re.compile(r"\(Background on this error at: .*?\)")


class OneLineErrors(click.Group):
    """A command group that shows every error as one line and a non-zero exit code, never as a traceback. Where the line
    may not be enough, a log has the rest."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or the one that stands for it when `bulk` speaks to a server."""
        name, command, rest = super().resolve_command(context, arguments)
        if remote.server_of(context):
            command = remote_jobs.every().get(str(name))
            if command is None:
                raise click.UsageError(
                    f"`bulk {name}` works on the database, and bulk was told to speak to a server: leave --server and "
                    "BULK_SERVER out"
                )
        return name, command, rest

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except BulkError as error:
            if context.meta.get(output.VERBOSE):
                traceback.print_exc()
            raise click.ClickException(" ".join(str(error).split())) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # nobody reads the output any more: click ends in silence
            if context.meta.get(output.VERBOSE):
                traceback.print_exc()
            raise click.ClickException(f"{reason(error)} ({error_log.kept(error)})") from error


def reason(error: Exception) -> str:
    """Return what happened, in one line. For an error of the database this is what PostgreSQL said."""
    said = getattr(error, "orig", None) or error
    primary = getattr(getattr(said, "diag", None), "message_primary", None)
    if primary:
        return f"the database refuses: {primary}"
    if isinstance(said, OSError) and said.strerror:
        return f"{said.filename}: {said.strerror}" if said.filename else said.strerror
    text = " ".join(ADVERTISED.sub("", str(said)).split())
    return f"{type(said).__name__}: {text}" if text else type(said).__name__


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bulk-pipelines", prog_name="bulk")
@click.option("--server", help="Speak to the HTTP API at this address, in place of the database (BULK_SERVER).")
@click.option("-q", "--quiet", is_flag=True, help="Print answers only: no notes, no progress.")
@click.option("-v", "--verbose", is_flag=True, help="Show errors with all their details.")
@click.pass_context
def main(context: click.Context, server: str | None, quiet: bool, verbose: bool) -> None:  # noqa: ARG001 - see OneLineErrors
    """Bulk imports, exports, file distribution and long queues of small work, on PostgreSQL, run by Dagster.

    Settings come from the environment (docs/settings.md). Without BULK_DATABASE_URL an embedded PostgreSQL is used.
    """
    output.open_what_is_closed()
    if not verbose:  # what a library has to say to programmers is nothing for people
        warnings.simplefilter("ignore")
    context.obj = Runs()
    context.meta.update({output.QUIET: quiet, output.VERBOSE: verbose})
    with suppress(BulkError):  # whatever is wrong with a setting, the command itself says
        logs.set_up(settings.current(), "warning")


class Runs:
    """How the commands of the slices have a job worked under Dagster."""

    def ready(self) -> None:
        """Prepare Dagster's home. Called before a job is submitted, because whatever keeps runs from starting would
        leave a submitted job behind."""
        from bulk_pipelines.database import address
        from bulk_pipelines.up import home

        chosen = settings.current()
        home.prepare(chosen, address.url(chosen))

    def __call__(self, job_key: str) -> "subprocess.Popen[bytes]":
        """Start a process that works the job."""
        from bulk_pipelines.up import home

        return home.work(settings.current(), job_key)


@main.command()
def up() -> None:
    """Run Dagster's UI, its daemon, the HTTP API and the database, until Ctrl-C."""
    from bulk_pipelines.up import supervisor

    supervisor.run(settings.current(), click.echo)


@main.command()
@output.shows(Migrated)
def migrate() -> None:
    """Bring the database to the newest schema."""
    from bulk_pipelines.database import address, ready
    from bulk_pipelines.up import home

    chosen = settings.current()
    url = address.url(chosen)
    applied = ready.migrated(chosen, url)
    home.migrate(chosen, url)
    said = "\n".join(f"applied {name}" for name in applied) or "the schema is up to date"
    output.show(Migrated(applied), said)


@main.command()
@output.shows("bulk_pipelines.doctor.Finding", many=True)
def doctor() -> None:
    """Check the installation, and say what to do about each thing that is wrong."""
    from bulk_pipelines import doctor as checks

    findings = checks.examine(settings.current())
    lines = []
    for finding in findings:
        lines.append(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.subject}: {finding.message}")
        if finding.remedy:
            lines.append(f"      -> {finding.remedy}")
    output.show(findings, "\n".join(lines))
    if not all(finding.ok for finding in findings):
        raise SystemExit(1)


@main.command()
@click.argument("role", type=click.Choice(["owner", "worker", "reader"]))
@click.argument("name")
def grants(role: str, name: str) -> None:
    """Print the SQL that lets a role of PostgreSQL be the owner, a worker or a reader here (docs/privileges.md).

    bulk grants worker bulk_worker | psql "$OWNERS_DATABASE_URL"
    """
    from bulk_pipelines.database import pool, rights
    from bulk_pipelines.orchestration.schema import SCHEMA

    chosen = settings.current()
    database = pool.parsed(chosen.database_url).database if chosen.database_url else "postgres"
    click.echo(rights.statements(rights.Role(role), name, database or "", SCHEMA), nl=False)


@main.command()
@output.shows("bulk_pipelines.status.Status")
def status() -> None:
    """Show jobs by kind and state, the workers, and how much is waiting."""
    from bulk_pipelines import status as overview
    from bulk_pipelines.database import ready

    found = overview.read(ready.url(settings.current()))
    output.show(found, overview.shown(found))


@main.command()
@output.shows(PassLine, many=True)
def sweep() -> None:
    """Rescue expired leases, end what is over, look after lost launches and dead runs, as the schedule does."""
    upkeep("sweep")


@main.command()
@output.shows(PassLine, many=True)
def finalize() -> None:
    """End the jobs whose last worker died before it could, as the schedule does."""
    upkeep("finalize")


@main.command()
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
@output.shows(PassLine, many=True)
def prune(dry_run: bool) -> None:
    """Remove what is old and over (BULK_KEEP_…), in bounded batches, as the schedule does."""
    upkeep("prune", *(["--dry-run"] if dry_run else []))


def upkeep(name: str, *options: str) -> None:
    """Make one pass, and print a short table of what it did."""
    from bulk_pipelines.output import table
    from bulk_pipelines.terminal import progress_bar
    from bulk_pipelines.up import home

    with progress_bar.steps(quiet=output.chosen(output.QUIET)) as told:
        done = home.upkeep(settings.current(), name, *options, told=told)
    problems = [(said, problem) for said, _, problem in done if problem]
    header = ("would go" if "--dry-run" in options else "gone") if name == "prune" else "done"
    output.show([PassLine(*each) for each in done], "\n".join(table((name, header), [each[:2] for each in done])))
    for said, problem in problems:
        click.echo(f"{said}: {problem}", err=True)
    if problems:
        raise SystemExit(1)


@drops.group.command()
@click.option("--source", help="Only this source.")
@output.shows(ScanShown, many=True)
def scan(source: str | None) -> None:
    """Look at the sources now: complete files are taken, and files are put away whose imports are over."""
    from bulk_pipelines.dropping import doors
    from bulk_pipelines.drops import scan as scanning

    chosen = settings.current()
    where = doors()
    found = scanning.configured(chosen, list(where.references), source)
    pool = connected()
    done = list(scanning.scan(pool, found, chosen, where, scanning.SECONDS))
    shown = [
        ScanShown(
            each.looked.source,
            each.looked.seen,
            each.looked.watched,
            each.looked.taken,
            each.looked.jobs,
            each.cleared,
            each.problem,
            str(each),
        )
        for each in done
    ]
    output.show(shown, "\n".join(map(str, done)))


for import_command in (afterwards.errors, afterwards.records, afterwards.replay, afterwards.undo):
    imports.group.add_command(import_command)
for slice_command in (
    imports.group,
    exports.command,
    distribution.group,
    drops.group,
    notices.group,
    resource_commands.group,
):
    main.add_command(slice_command)
for processing_command in (
    processing.process,
    recipes.recipes,
    processing.grid,
    processing.reprocess,
    processing.kickoff,
    review.review,
):
    main.add_command(processing_command)
for command in (
    job_commands.jobs,
    job_commands.job,
    commands.dlq,
    commands.pause,
    commands.resume,
    commands.cancel,
    console.api,
    api.group,
    api.show_audit,
):
    main.add_command(command)
examples.show_in(main)


if __name__ == "__main__":
    main()
