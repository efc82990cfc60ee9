"""What the command line prints of a preview."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from click.core import ParameterSource

from bulk_pipelines.counted import counted
from bulk_pipelines.formats.flags import flag_of, flags_of
from bulk_pipelines.formats.options import HELP
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.report.preview import Mapped, Preview
from bulk_pipelines.imports.report.shown import ImportShown, why

LONGEST = 40


@dataclass(frozen=True)
class FilePreviewed:
    """How a file would be read, and the command that imports it so."""

    preview: Preview
    command: str


FileShown = ImportShown | Sequence[FilePreviewed]
"""What `bulk import` prints for programs: the import, or with `--preview` each of the files."""


def command(given: click.Context, reading: Reading) -> str:
    """Return the command line that imports the files like this. It is the one that was given, but for the preview, with
    what is to be told of how the files are read."""
    server = given.find_root().params.get("server")
    words = ["bulk", *(["--server", server] if server else []), "import", *map(as_file, given.params["sources"])]
    for option in given.command.params:
        name = str(option.name)
        told = name in given.params and given.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if told and isinstance(option, click.Option) and name not in (*HELP, "preview"):
            words += [flag_of(name)] if option.is_flag else [flag_of(name), str(given.params[name])]
    return shlex.join([*words, *flags_of(reading)])


def as_file(source: str) -> str:
    """Return the name of a file so that it is no option, and none of the commands of `bulk import`."""
    return f"./{source}" if source.startswith("-") or not {".", "/"} & set(source) else source


def text(shown: Sequence[FilePreviewed]) -> str:
    return "\n".join(line for each in shown for line in lines(each.preview, each.command))


def judged(found: Preview) -> str:
    """Say how many of the records that were looked at would be rejected."""
    if found.judged == 1:
        return "the only record would be rejected:" if found.rejected else "the only record would not be rejected"
    of = f"{found.rejected} of the first {found.judged} records would be rejected"
    return f"{of}:" if found.rejected else of


def lines(found: Preview, command: str) -> Iterator[str]:
    """Yield the lines that show a preview."""
    if found.problem is not None:
        yield f"{found.source} cannot be imported like this: {found.problem}"
        yield ""
    if found.format is None:
        return
    how = ", ".join(f"{name} {value}" for name, value in found.recognised.items())
    yield f"{found.source}: {found.format}" + (f" ({how})" if how else "")
    if found.files:
        yield f"an archive of {counted(len(found.files), 'file')}; this is the first one that can be read:"
        yield from (f"  {name}" for name in found.files[:LONGEST])
    yield ""
    width = max((len(each.column) for each in found.columns), default=0)
    for each in found.columns:
        yield f"  {each.column:{width}} <- {origin(each)}"
    if found.left_out:
        yield f"  left out: {', '.join(found.left_out)}"
    if found.without:
        yield f"  not in the file: {', '.join(found.without)}"
    yield ""
    for number, record in enumerate(found.records, 1):
        yield f"  {number}. " + ", ".join(f"{name}={short(value)}" for name, value in record.items())
    if found.records:
        yield ""
    yield judged(found)
    for reject in found.rejects:
        yield f"  line {reject.line}: {why(reject.reasons)}  {reject.record}"
    yield ""
    yield command


def origin(each: Mapped) -> str:
    if each.field is not None:
        return each.field
    return f"the constant {each.constant!r}" if each.constant is not None else f"the expression {each.expression}"


def short(value: str | None) -> str:
    if value is None:
        return "(nothing)"
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"
