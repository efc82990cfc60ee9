"""The options that tell how a file is to be read, as flags of the command line."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from bulk_pipelines.formats.options import FLAGS, HELP, REPEATED, SEVERAL
from bulk_pipelines.formats.reading import Reading


def flag_of(name: str) -> str:
    return f"--{REPEATED.get(name, name).replace('_', '-')}"


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command."""
    for name, told in reversed(HELP.items()):
        if name in FLAGS:
            command = click.option(flag_of(name), name, is_flag=True, help=told)(command)
        else:
            command = click.option(flag_of(name), name, multiple=name in SEVERAL, help=told)(command)
    return command


def with_reading(options: Mapping[str, Any]) -> dict[str, Any]:
    """Gather what tells how a file is to be read, as one of the options of a request."""
    given = {name: value for name, value in options.items() if name in HELP}
    rest = {name: value for name, value in options.items() if name not in HELP}
    return rest | {"reading": Reading.of(given)}
