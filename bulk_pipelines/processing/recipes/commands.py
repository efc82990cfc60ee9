"""`bulk recipes`. What a command needs is imported when it runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bulk_pipelines import output, settings, suggestions
from bulk_pipelines.formats.flags import reading_options, with_reading
from bulk_pipelines.processing.recipes.suggested import recipes_and_files
from bulk_pipelines.processing.shown import RecipesChecked, RecipeShown, TriedRow
from bulk_pipelines.terminal.connecting import connected


@click.group()
def recipes() -> None:
    """Look at the declared recipes, check them, and try one on a few rows."""


@recipes.command(name="list")
@output.shows(RecipeShown, many=True)
def list_all() -> None:
    """List the recipes, with their types and where they are declared."""
    from bulk_pipelines.processing.recipes import library

    found = library.load(settings.current())
    shown = [
        RecipeShown(name, recipe.type, recipe.says, found.places[name])
        for name, recipe in sorted(found.recipes.items())
    ]
    lines = [f"{each.name:20} {each.type:10} {each.says}  ({each.place})" for each in shown]
    nothing = f"no recipe is declared: put a TOML file into {library.folder(settings.current())}"
    output.show(shown, "\n".join(lines) or nothing)


@recipes.command()
@click.argument("name", shell_complete=recipes_and_files)
@output.shows(Mapping[str, Mapping[str, Any]])
def show(name: str) -> None:
    """Show a recipe as it is declared, as JSON."""
    from bulk_pipelines.processing.recipes import library

    recipe = library.load(settings.current()).recipe(name)
    output.show({recipe.name: recipe.given})


@recipes.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output.shows(RecipesChecked)
def check(files: Sequence[Path]) -> None:
    """Check all declarations that are found, and the FILES besides. The first mistake is shown."""
    from bulk_pipelines.processing.recipes import library

    found = library.load(settings.current(), files)
    shown = RecipesChecked(len(found.recipes), len(found.providers))
    output.show(shown, f"{shown.recipes} recipes and {shown.providers} providers: all are right")


@recipes.command(name="try")
@click.argument("name", shell_complete=recipes_and_files)
@click.argument("source", shell_complete=suggestions.files)
@click.option("--rows", default=10, show_default=True, type=click.IntRange(1, 100), help="How many of the first rows.")
@reading_options
@output.shows(TriedRow, many=True)
def try_out(name: str, source: str, rows: int, **options: Any) -> None:
    """Work the first rows of a file by the recipe NAME, or by the recipe in the file NAME; show every call, and what
    came of each row. Nothing is stored, except a reference that is a file: it is loaded."""
    from bulk_pipelines.processing import trial
    from bulk_pipelines.processing.recipes import library

    chosen = settings.current()
    found, recipe = library.tried(chosen, name)
    reading = with_reading(options)["reading"]
    tried = trial.run(connected(), found, recipe, source, rows, chosen, reading)
    if output.chosen(output.JSON):
        output.show(list(tried))
        return
    for row in tried:  # each row is shown as soon as it is known: calls may be slow
        click.echo("\n".join(trial.lines(row)))
