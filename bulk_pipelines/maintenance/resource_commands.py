"""The commands of `bulk resources`. Each command imports the modules that it needs when it runs."""

import sys

import click

from bulk_pipelines import settings


@click.group(name="resources")
def group() -> None:
    """Look at what can be imported and exported; adopt tables; compare declarations with tables."""


@group.command(name="list")
def show_all() -> None:
    """List the resources: those that come with the program, and the adopted tables."""
    from bulk_pipelines import resources

    for each in resources.known():
        where = "" if each.built_in else f" ({'.'.join(each.place)})"
        click.echo(f"{each.name}{where}: {each.says}")


@group.command()
@click.argument("table")
@click.option("--name", help="What the resource is called. [default: the name of the table]")
@click.option("--provenance", is_flag=True, help="Add columns to the table that say which import a row comes from.")
@click.option("--again", is_flag=True, help="Make the declaration anew, and keep what was written into it.")
def adopt(table: str, name: str | None, provenance: bool, again: bool) -> None:
    """Write the declaration of a table, as the catalogue knows it, to a file to edit and to keep in git."""
    from bulk_pipelines.database import ready
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.resources import adoption

    chosen = settings.current()
    with transaction(ready.opened(chosen, "bulk cli")) as connection:
        resource, path = adoption.adopt(connection, chosen, table, name, provenance=provenance, again=again)
    click.echo(f"{resource.name}: {path}\n{adoption.as_text(resource)}")


@group.command()
def sample() -> None:
    """Make the tables of users, articles and comments, to try the program with. An embedded database has them."""
    from bulk_pipelines.database import ready, samples
    from bulk_pipelines.database.pool import transaction

    with transaction(ready.opened(settings.current(), "bulk cli")) as connection:
        made = samples.make(connection)
    click.echo(f"made {', '.join(made)}" if made else "the tables are there already")


@group.command()
@click.argument("names", nargs=-1, metavar="[RESOURCE]...")
def check(names: tuple[str, ...]) -> None:
    """Say where declarations and tables have come apart; exit with status 1 if any import could not work."""
    from bulk_pipelines import resources
    from bulk_pipelines.database import ready
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.errors import InvalidInput
    from bulk_pipelines.resources import comparing

    chosen = [resources.find(name) for name in names] or [each for each in resources.known() if not each.built_in]
    pool = ready.opened(settings.current(), "bulk cli")
    bad = False
    for resource in chosen:
        if resource.built_in:
            click.echo(f"{resource.name}: is not adopted, `bulk doctor` looks at its table")
            continue
        try:
            with transaction(pool) as connection:
                found = comparing.differences(connection, resource)
        except InvalidInput as error:
            found = [comparing.Difference(error.message, True)]
        bad = bad or any(each.grave for each in found)
        click.echo(f"{resource.name}: {'as the table' if not found else ''}".rstrip())
        for each in found:
            click.echo(f"  {'stops imports' if each.grave else 'for your eyes'}: {each.said}")
    if bad:
        sys.exit(1)
