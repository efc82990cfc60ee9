"""The options that tell how a file is to be read, as flags of the command line."""

from collections.abc import Callable

import click

from bulk_pipelines.formats.options import FLAGS, HELP, REPEATED, SEVERAL


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
