"""The commands of `bulk resources`. Each command imports the modules that it needs when it runs."""

import sys

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.maintenance.shown import Adopted, Apart, ResourceChecked, ResourceShown, SamplesMade
from bulk_pipelines.terminal.connecting import connected


@click.group(name="resources")
def group() -> None:
    """Look at what can be imported and exported; adopt tables; compare declarations with tables."""


@group.command(name="list")
@output.shows(ResourceShown, many=True)
def show_all() -> None:
    """List the resources: those that come with the program, and the adopted tables."""
    from bulk_pipelines import resources

    shown = [ResourceShown(each.name, ".".join(each.place), each.says, each.built_in) for each in resources.known()]
    lines = [f"{each.name}{'' if each.built_in else f' ({each.table})'}: {each.says}" for each in shown]
    output.show(shown, "\n".join(lines))


@group.command()
@click.argument("table")
@click.option("--name", help="What the resource is called. [default: the name of the table]")
@click.option("--provenance", is_flag=True, help="Add columns to the table that say which import a row comes from.")
@click.option("--again", is_flag=True, help="Make the declaration anew, and keep what was written into it.")
@output.shows(Adopted)
def adopt(table: str, name: str | None, provenance: bool, again: bool) -> None:
    """Write the declaration of a table, as the catalogue knows it, to a file to edit and to keep in git."""
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.resources import adoption

    chosen = settings.current()
    with transaction(connected()) as connection:
        resource, path = adoption.adopt(connection, chosen, table, name, provenance=provenance, again=again)
    shown = Adopted(
        resource.name,
        str(path),
        resource.column_names,
        [key.name for key in resource.keys],
        [".".join(each.table) for each in resource.references],
        resource.provenance,
    )
    output.show(shown, f"{resource.name}: {path}\n{adoption.as_text(resource)}")


@group.command()
@output.shows(SamplesMade)
def sample() -> None:
    """Make the tables of users, articles and comments, to try the program with. An embedded database has them."""
    from bulk_pipelines.database import samples
    from bulk_pipelines.database.pool import transaction

    with transaction(connected()) as connection:
        made = samples.make(connection)
    output.show(SamplesMade(made), f"made {', '.join(made)}" if made else "the tables are there already")


@group.command()
@click.argument("names", nargs=-1, metavar="[RESOURCE]...", shell_complete=suggestions.resources)
@output.shows(ResourceChecked, many=True)
def check(names: tuple[str, ...]) -> None:
    """Say where declarations and tables differ; exit with status 1 if any import could not work."""
    from bulk_pipelines import resources
    from bulk_pipelines.database.pool import transaction
    from bulk_pipelines.errors import InvalidInput
    from bulk_pipelines.resources import comparing

    chosen = [resources.find(name) for name in names] or [each for each in resources.known() if not each.built_in]
    pool = connected()
    shown = []
    for resource in chosen:
        found = []
        if not resource.built_in:
            try:
                with transaction(pool) as connection:
                    found = comparing.differences(connection, resource)
            except InvalidInput as error:
                found = [comparing.Difference(error.message, True)]
        apart = [Apart(each.said, each.grave) for each in found]
        shown.append(ResourceChecked(resource.name, not resource.built_in, apart))
    output.show(shown, "\n".join(map(lines_of, shown)))
    if any(each.stops_imports for resource in shown for each in resource.differences):
        sys.exit(1)


def lines_of(checked: ResourceChecked) -> str:
    if not checked.adopted:
        return f"{checked.name}: is not adopted, `bulk doctor` looks at its table"
    lines = [f"{checked.name}: {'' if checked.differences else 'as the table'}".rstrip()]
    lines += [
        f"  {'stops imports' if each.stops_imports else 'for your eyes'}: {each.said}" for each in checked.differences
    ]
    return "\n".join(lines)
