"""The options that tell how a file is to be read, as flags of the command line."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from bulk_pipelines.errors import InvalidInput
from bulk_pipelines.formats.options import FLAGS, HELP, REPEATED, SEVERAL
from bulk_pipelines.formats.reading import Reading, names, pairs


def flag_of(name: str) -> str:
    return f"--{REPEATED.get(name, name).replace('_', '-')}"


def flags_of(reading: Reading) -> Iterator[str]:
    """Yield the words of a command line that tell the same."""
    for name, value in reading.as_params().items():
        if name in FLAGS:
            yield flag_of(name)
        else:
            for text in texts_of(name, value):
                yield from (flag_of(name), text)


def texts_of(name: str, value: Any) -> list[str]:
    """Return the values of an option as people write them. What would be read otherwise as it stands is JSON."""
    if name == "fields":
        told = ",".join(value)
        return [told if plainly(names, name, told, list(value)) else as_json(value)]
    if name in SEVERAL:
        return [each if isinstance(each, str) else pair(name, *each) for each in value]
    return [{"\t": "tab", "": "none"}.get(value, str(value))]


def pair(name: str, column: str, value: str) -> str:
    told = f"{column}={value}"
    return told if plainly(pairs, name, told, [[column, value]]) else as_json({column: value})


def plainly(read: Callable[[str, Any], tuple[Any, ...]], name: str, told: str, value: list[Any]) -> bool:
    """Whether a text is read as this value."""
    try:
        return [list(each) if isinstance(each, tuple) else each for each in read(name, told)] == value
    except InvalidInput:
        return False


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


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
