"""What the shell suggests where a recipe is named."""

import click
from click.shell_completion import CompletionItem

from bulk_pipelines import settings, suggestions


@suggestions.quietly
def recipes_and_files(_context: click.Context, _parameter: click.Parameter | None, begun: str) -> list[CompletionItem]:
    """Suggest the recipes that are declared, and files with one."""
    from bulk_pipelines.processing.recipes import library

    found = library.load(settings.current()).recipes
    return [*(CompletionItem(name) for name in found if name.startswith(begun)), CompletionItem(begun, type="file")]
