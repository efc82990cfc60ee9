"""How `bulk import` is read: the word behind it is a subcommand or a file."""

import click
from click.shell_completion import CompletionItem

from bulk_pipelines import suggestions


class FilesFirst(click.Group):
    """The group that reads `bulk import FILE` as `bulk import file FILE`: a word that is no subcommand is a file."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments and self.get_command(context, arguments[0]) is None:
            arguments = ["file", *arguments]
        return super().resolve_command(context, arguments)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Suggest files beside the subcommands, and the options of the command that stands for the group."""
        if incomplete.startswith("-"):
            return self.commands["file"].shell_complete(context, incomplete)
        return [*super().shell_complete(context, incomplete), *suggestions.files(context, None, incomplete)]

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the options that people type, too: those of the command that stands for the group."""
        super().format_options(context, formatter)
        file = self.commands["file"]
        options = [each for each in file.params if isinstance(each, click.Option)]
        with formatter.section("Options of bulk import FILE"):
            formatter.write_dl([record for each in options if (record := each.get_help_record(context))])
        file.format_epilog(context, formatter)

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        # Options may stand before the file.
        if arguments and arguments[0].startswith("--") and arguments[0] not in {"--help"}:
            arguments = ["file", *arguments]
        return super().parse_args(context, arguments)
