"""What commands print: lines for people, or one JSON value for programs that gave `--json`.

A command says by `shows` what its JSON is; the reference and the tests read that declaration. The answer goes to the
standard output. With `--json`, notes and progress go to the standard error, and with `--quiet` they are left out."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

JSON = "bulk.json"
QUIET = "bulk.quiet"
VERBOSE = "bulk.verbose"
DONE_WITH_ERRORS = 3
"""The exit code of a command whose work is done, but not all of it went well. 1 is a failure, 2 wrong usage."""

Function = TypeVar("Function", bound=Callable[..., object])


def shows(answer: Any) -> Callable[[Function], Function]:
    """Declare the type of a command's JSON, and give the command the option for it."""

    def declared(function: Function) -> Function:
        function.__answer__ = answer  # type: ignore[attr-defined]
        return click.option(
            "--json",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=note_json,
            help="Print JSON for programs (docs/json.md).",
        )(function)

    return declared


def answer_of(command: click.Command) -> Any:
    """Return the declared type of a command's JSON; None if it prints none."""
    return getattr(command.callback, "__answer__", None)


def note_json(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        context.find_root().meta[JSON] = True


def chosen(name: str) -> bool:
    context = click.get_current_context(silent=True)
    return bool(context and context.find_root().meta.get(name))


def show(answer: Any, text: str) -> None:
    """Print what a command has found: the answer for programs, or the text for people."""
    if chosen(JSON):
        from pydantic import TypeAdapter

        declared = answer_of(click.get_current_context().command)
        text = TypeAdapter(declared).dump_json(answer, indent=2).decode()
    click.echo(text)


def note(text: str) -> None:
    """Say something besides the answer."""
    if not chosen(QUIET):
        click.echo(text, err=chosen(JSON))


def end(good: bool, with_errors: bool = False) -> None:
    """End the command with the exit code that tells how its job went."""
    if not good:
        sys.exit(1)
    if with_errors:
        sys.exit(DONE_WITH_ERRORS)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table, with text on the left of its column and numbers on the right."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    numbers = [all(not isinstance(row[column], str) for row in rows) for column in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in lines
    ]
