"""The command line, `bulk`. What a command needs is imported when it runs, so that `bulk --help` answers at once."""

import subprocess

import click

from bulk_pipelines import settings
from bulk_pipelines.distribution import commands as distribution
from bulk_pipelines.drops import commands as drops
from bulk_pipelines.errors import BulkError
from bulk_pipelines.exports import commands as exports
from bulk_pipelines.imports import commands as imports
from bulk_pipelines.maintenance import commands


class OneLineErrors(click.Group):
    """What a user can put right is one line and a non-zero exit, never a traceback."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except BulkError as error:
            raise click.ClickException(" ".join(str(error).split())) from error


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bulk-pipelines")
@click.pass_context
def main(context: click.Context) -> None:
    """Bulk imports, exports, file distribution and long queues of small work, on PostgreSQL, run by Dagster.

    Settings come from the environment (docs/settings.md). Without BULK_DATABASE_URL an embedded PostgreSQL is used.
    """
    context.obj = work


def work(job_key: str) -> "subprocess.Popen[bytes]":
    """How the commands of the slices have a job worked under Dagster."""
    from bulk_pipelines.up import home

    return home.work(settings.current(), job_key)


@main.command()
def up() -> None:
    """Run Dagster's UI, its daemon and the database, until Ctrl-C."""
    from bulk_pipelines.up import supervisor

    supervisor.run(settings.current(), click.echo)


@main.command()
def migrate() -> None:
    """Bring the database to the newest schema."""
    from bulk_pipelines.database import address, migrations
    from bulk_pipelines.up import home

    chosen = settings.current()
    url = address.url(chosen)
    applied = migrations.apply(url)
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("the schema is up to date")
    home.migrate(chosen, url)


@main.command()
def doctor() -> None:
    """Check the installation, and say what to do about each thing that is wrong."""
    from bulk_pipelines import doctor as checks

    findings = checks.examine(settings.current())
    for finding in findings:
        click.echo(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.subject}: {finding.message}")
        if finding.remedy:
            click.echo(f"      -> {finding.remedy}")
    if not all(finding.ok for finding in findings):
        raise SystemExit(1)


@main.command()
def status() -> None:
    """Show jobs by kind and state, the workers, and how much is waiting."""
    from bulk_pipelines import status as overview
    from bulk_pipelines.database import ready

    click.echo(overview.shown(overview.read(ready.url(settings.current()))))


@main.command()
def sweep() -> None:
    """Rescue expired leases, end what is over, look after lost launches and dead runs: what the schedule does."""
    upkeep("sweep")


@main.command()
def finalize() -> None:
    """End the jobs whose last worker died before it could: what the schedule does."""
    upkeep("finalize")


@main.command()
@click.option("--dry-run", is_flag=True, help="Only count what would go.")
def prune(dry_run: bool) -> None:
    """Remove what is old and over (BULK_KEEP_…), in bounded batches: what the schedule does."""
    upkeep("prune", *(["--dry-run"] if dry_run else []))


def upkeep(name: str, *options: str) -> None:
    """One pass, and a short table of what it did."""
    from bulk_pipelines.status import table
    from bulk_pipelines.up import home

    done = home.upkeep(settings.current(), name, *options)
    problems = [(said, problem) for said, _, problem in done if problem]
    header = ("would go" if "--dry-run" in options else "gone") if name == "prune" else "done"
    click.echo("\n".join(table((name, header), [(said, count) for said, count, _ in done])))
    for said, problem in problems:
        click.echo(f"{said}: {problem}", err=True)
    if problems:
        raise SystemExit(1)


for slice_command in (imports.group, exports.command, distribution.group, drops.group):
    main.add_command(slice_command)
for command in (commands.dlq, commands.pause, commands.resume, commands.cancel):
    main.add_command(command)


if __name__ == "__main__":
    main()
