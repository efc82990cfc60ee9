"""The generated pages of the documentation describe every setting and every command. A test compares them with the
code."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from bulk_pipelines import settings
from bulk_pipelines.api.metrics import catalogue
from bulk_pipelines.cli import main
from bulk_pipelines.engine.measures.catalogue import KEPT, Metric
from bulk_pipelines.resources import documentation
from bulk_pipelines.settings import Settings
from bulk_pipelines.settings.engine import EngineSettings

NOTICE = "<!-- Made by `make docs` from the code; a test compares the two. -->"


def pages() -> dict[str, str]:
    """Return the content of each page, by the name of its file."""
    return {
        "settings.md": settings_page(),
        "cli.md": cli_page(),
        "resources.md": documentation.page(NOTICE),
        "metrics.md": metrics_page(),
    }


def metrics_page() -> str:
    text = [
        "# Metrics",
        NOTICE,
        "What `/metrics` tells Prometheus; [observing.md](observing.md) says how it is made.",
        "## Looked up when Prometheus asks",
        metrics_table(catalogue.LOOKED_UP),
        "## Measured by the processes, and kept in the database",
        "A histogram `x` is the series `x_bucket`, `x_sum` and `x_count`.",
        metrics_table(KEPT),
    ]
    return "\n\n".join(text) + "\n"


def metrics_table(metrics: Iterable[Metric]) -> str:
    rows = [
        f"| `{each.name}` | {each.form} | {', '.join(f'`{label}`' for label in each.labels)} | {each.doc} |"
        for each in metrics
    ]
    return "\n".join(["| metric | type | labels | what it says |", "| --- | --- | --- | --- |", *rows])


def settings_page() -> str:
    text = [
        "# Settings",
        NOTICE,
        "Every setting is an environment variable. None is needed.",
        settings_table(Settings),
        "## The engine",
        "These hold for jobs of every kind, but where [engine.md](engine.md#limits) says otherwise.",
        settings_table(EngineSettings),
    ]
    return "\n\n".join(text) + "\n"


def settings_table(group: type) -> str:
    rows = [
        f"| `{each.variable}` | {each.kind} | {f'`{each.default}`' if each.default else 'empty'} | {each.doc} |"
        for each in settings.describe(group)
    ]
    return "\n".join(["| variable | type | default | what it does |", "| --- | --- | --- | --- |", *rows])


ERRORS = "A command that fails shows one line: what is wrong, and what to do. Its exit code is then not 0."


def cli_page() -> str:
    parts = ["# The command line", NOTICE, ERRORS]
    for context in contexts(
        click.Context(main, info_name="bulk", terminal_width=100, max_content_width=100, **main.context_settings)
    ):
        parts += [f"## {context.command_path}", f"```\n{context.get_help()}\n```"]
    return "\n\n".join(parts) + "\n"


def contexts(parent: click.Context) -> Iterator[click.Context]:
    """Yield the command and all commands below it."""
    yield parent
    if isinstance(parent.command, click.Group):
        for name in parent.command.list_commands(parent):
            command = parent.command.get_command(parent, name)
            if command is not None:
                yield from contexts(
                    click.Context(command, info_name=name, parent=parent, terminal_width=100, max_content_width=100)
                )


if __name__ == "__main__":
    for file, content in pages().items():
        (Path(sys.argv[1]) / file).write_text(content)
