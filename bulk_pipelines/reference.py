"""The generated pages of the documentation describe every setting and every command. A test compares them with the
code."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import click

from bulk_pipelines import output, settings
from bulk_pipelines.api.metrics import documentation as metrics
from bulk_pipelines.cli import main
from bulk_pipelines.resources import documentation
from bulk_pipelines.settings import Settings
from bulk_pipelines.settings.engine import EngineSettings

NOTICE = "<!-- Made by `make docs` from the code; a test compares the two. -->"


def pages() -> dict[str, str]:
    """Return the content of each page, by the name of its file."""
    return {
        "settings.md": settings_page(),
        "cli.md": cli_page(),
        "json.md": json_page(),
        "metrics.md": metrics.page(NOTICE),
        "resources.md": documentation.page(NOTICE),
    }


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


ERRORS = """A command that fails shows one line: what is wrong, and what to do. `bulk --verbose` shows all details.

| exit code | what it says |
| --- | --- |
| 0 | done |
| 1 | failed, or cancelled |
| 2 | the command was given wrongly |
| 3 | done, but not all of it went well: records were rejected, or items ended in the DLQ |

Notes and progress go to the standard error where the standard output is an answer for programs. `bulk --quiet` leaves
them out. Colours are for terminals only, and never there when `NO_COLOR` is set.

The shell completes commands and options: put `eval "$(_BULK_COMPLETE=bash_source bulk)"` into `~/.bashrc`,
`eval "$(_BULK_COMPLETE=zsh_source bulk)"` into `~/.zshrc`, or `_BULK_COMPLETE=fish_source bulk | source` into
`~/.config/fish/config.fish`."""

JSON = """With `--json`, these commands print one JSON value on the standard output, and whatever else they say on the
standard error. A command that cannot answer prints no JSON: its exit code and the line on the standard error
tell why. A time is written by ISO 8601. New fields may come; a field that is here keeps its name and its meaning.

Left out are the commands that serve until they are stopped (`bulk up`, `bulk api`), and those whose output is the
content of a file: `bulk grants`, `bulk import records`, `bulk grid`, downloads of rejects, and exports to standard
output."""


def cli_page() -> str:
    parts = ["# The command line", NOTICE, ERRORS]
    for context in contexts(
        click.Context(main, info_name="bulk", terminal_width=100, max_content_width=100, **main.context_settings)
    ):
        parts += [f"## {context.command_path}", f"```\n{context.get_help()}\n```"]
    return "\n\n".join(parts) + "\n"


def json_page() -> str:
    """Describe the JSON of every command that prints some."""
    parts = ["# JSON from the command line", NOTICE, JSON]
    described: dict[str, type] = {}
    for context in contexts(click.Context(main, info_name="bulk", **main.context_settings)):
        answer = output.answer_of(context.command)
        if answer is None:
            continue
        parts.append(f"## {context.command_path}\n\n`{type_name(answer)}`")
        found = dict(classes_of(answer))
        parts += [fields_table(name, each) for name, each in found.items() if name not in described]
        described |= found
    return "\n\n".join(parts) + "\n"


def fields_table(name: str, described: type) -> str:
    hints = get_type_hints(described)
    rows = [f"| `{each.name}` | {type_name(hints[each.name])} |" for each in dataclasses.fields(described)]
    return "\n".join([f"### {name}", "", "| field | type |", "| --- | --- |", *rows])


def classes_of(found: Any) -> Iterator[tuple[str, type]]:
    """Yield the dataclasses that a type is made of, with their names."""
    if dataclasses.is_dataclass(found):
        assert isinstance(found, type)
        yield found.__name__, found
        for hint in get_type_hints(found).values():
            yield from classes_of(hint)
    for inner in get_args(found):
        yield from classes_of(inner)


NAMES = {str: "text", int: "integer", float: "number", bool: "boolean", datetime: "time", NoneType: "null", Any: "any"}


def type_name(found: Any) -> str:
    """Return the name of a type as people who read JSON know it."""
    inner = [type_name(each) for each in get_args(found) if each is not Ellipsis]
    origin = get_origin(found)
    if origin in (Union, UnionType):
        return " or ".join(inner)
    if origin in (list, tuple, Sequence):
        return f"list of {inner[0]}"
    if origin in (dict, Mapping):
        return f"object of {inner[1]}"
    if isinstance(found, type) and issubclass(found, Enum):
        return "text"
    return NAMES.get(found) or str(found.__name__)


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
