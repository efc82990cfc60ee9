"""What commands print: lines for people, or one JSON value for programs that gave `--json`.

A command says by `shows` what its JSON is; the reference and the tests read that declaration. The answer goes to the
standard output. With `--json`, notes and progress go to the standard error, and with `--quiet` they are left out."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, BinaryIO, TypeVar

import click

from bulk_pipelines.errors import InvalidInput

JSON = "bulk.json"
QUIET = "bulk.quiet"
VERBOSE = "bulk.verbose"
DONE_WITH_ERRORS = 3
"""The exit code of a command whose work is done, but not all of it went well. 1 is a failure, 2 wrong usage."""

Function = TypeVar("Function", bound=Callable[..., object])


def shows(answer: Any, *, many: bool = False) -> Callable[[Function], Function]:
    """Declare the type of a command's JSON, or of each of `many`, and give the command the option for it. A type whose
    module takes time to import is named by a text: `bulk_pipelines.doctor.Finding`."""

    def declared(function: Function) -> Function:
        function.__answer__ = (answer, many)  # type: ignore[attr-defined]
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
    answer, many = getattr(command.callback, "__answer__", (None, False))
    if isinstance(answer, str):
        module, _, name = answer.rpartition(".")
        answer = getattr(import_module(module), name)
    return list[answer] if many else answer  # type: ignore[valid-type]


def same_answer(command: click.Command, function: Callable[..., object]) -> None:
    """Declare that a function prints what a command does."""
    if (declared := getattr(command.callback, "__answer__", None)) is not None:
        function.__answer__ = declared  # type: ignore[attr-defined]


def note_json(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        context.find_root().meta[JSON] = True


def open_what_is_closed() -> None:
    """Open the standard streams that whoever started this process has closed. Otherwise the next file or connection
    gets the number of one of them, and whatever a library prints goes there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - it stays open as long as the process


def binary() -> BinaryIO:
    """Return the standard output for the content of a file."""
    if sys.stdout is None:
        raise InvalidInput("to", "the standard output is closed")
    return sys.stdout.buffer


def chosen(name: str) -> bool:
    context = click.get_current_context(silent=True)
    return bool(context and context.find_root().meta.get(name))


def show(answer: Any, text: str | None = None) -> None:
    """Print what a command has found: the answer for programs, or the text for people. Without a text, people are shown
    the answer, too."""
    if text is None or chosen(JSON):
        from pydantic import TypeAdapter

        declared = answer_of(click.get_current_context().command)
        text = TypeAdapter(declared).dump_json(answer, indent=2).decode()
    if text:
        click.echo(text)


def refuse_json(what: str) -> None:
    """Refuse `--json` where the output is a file's content, and no answer."""
    if chosen(JSON):
        raise click.UsageError(f"{what} prints the content of a file: leave --json out")


def confirm(question: str) -> None:
    """Ask, and end the command if the answer is no. The question is no part of the answer for programs."""
    click.confirm(question, abort=True, err=chosen(JSON))


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
