"""What the command line prints of a preview."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from bulk_pipelines.counted import counted
from bulk_pipelines.formats.flags import flag_of
from bulk_pipelines.formats.options import FLAGS
from bulk_pipelines.formats.reading import Reading
from bulk_pipelines.imports.report.preview import Mapped, Preview
from bulk_pipelines.imports.report.shown import ImportShown, why
from bulk_pipelines.imports.request import Options
from bulk_pipelines.resources import written

LONGEST = 40
PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
"""A name that needs no quotes in SQL, unless it is a word of the language: then it may stand behind a point all the
same."""


@dataclass(frozen=True)
class FilePreviewed:
    """How a file would be read, and the command that imports it so."""

    preview: Preview
    command: str


FileShown = ImportShown | Sequence[FilePreviewed]
"""What `bulk import` prints for programs: the import, or with `--preview` each of the files."""


def command(sources: tuple[str, ...], options: Options, reading: Reading) -> str:
    """Return the command that imports the files like this."""
    words = ["bulk", "import", *sources, *target_of(options)]
    told: Mapping[str, Any] = {
        "mode": None if options.mode == "insert" else options.mode,
        "format": options.format,
        "compression": options.compression,
        "match_on": options.match_on,
        "on_error": None if options.on_error == "continue" else options.on_error,
    }
    for name, value in told.items():
        words += [flag_of(name), str(value)] if value is not None else []
    for name, value in reading.as_params().items():
        words += flags_of(name, value)
    return shlex.join(words)


def target_of(options: Options) -> tuple[str, str]:
    """Return the flag that says where the records go: to a resource, or to a table that nobody has declared."""
    declared = options.declaration
    if declared is None or written.job_name(declared.name) != written.UNDECLARED:
        return "--resource", options.resource
    return "--table", ".".join(name if PLAIN.fullmatch(name) else quoted(name) for name in declared.place)


def quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


def flags_of(name: str, value: Any) -> Iterator[str]:
    if name in FLAGS:
        yield flag_of(name)
    elif name == "fields":
        yield from (flag_of(name), ",".join(value))
    elif isinstance(value, list):
        for each in value:
            yield from (flag_of(name), each if isinstance(each, str) else "=".join(each))
    else:
        yield from (flag_of(name), {"\t": "tab", "": "none"}.get(value, str(value)))


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
